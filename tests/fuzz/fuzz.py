"""Fuzz what takes bytes from outside, guided by coverage: `python tests/fuzz/fuzz.py --seconds 300`.

The invariants are in `invariant.py` and `surfaces.py`. Inputs that reach new code go to a scratch folder, with any that
break it; the kept corpus is only read (`corpus.py` says how it is renewed). Needs `atheris`, from the extra `test`.
"""

import argparse
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

INSTRUMENTED = ["pulsar_actors.wire", "pulsar_actors.schema", "pulsar_actors.broker.web", "pulsar_actors.runtime"]
SHORT = 256  # an input under this size counts as this long: its time is mostly that of calling anything


class Slowest:
    """The input with the most time a byte, confirmed by a second look, since a busy machine delays any of them."""

    def __init__(self, check: Callable[[bytes], None], kept: Path) -> None:
        self._check = check
        self._kept = kept
        self._most = 0.0  # seconds a byte

    def __call__(self, data: bytes) -> None:
        a_byte = self._timed(data)
        if a_byte > self._most:
            a_byte = min(a_byte, self._timed(data), self._timed(data))
        if a_byte > self._most:
            self._most = a_byte
            sys.stderr.write(f"SLOWEST {a_byte * 1e6:.1f} us a byte, {len(data)} bytes, in {self._kept}\n")
            self._kept.write_bytes(data)

    def _timed(self, data: bytes) -> float:
        began = time.perf_counter()
        self._check(data)
        return (time.perf_counter() - began) / max(len(data), SHORT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="stop after this long (60)")
    parser.add_argument("--runs", type=int, default=-1, help="stop after this many inputs (no end)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed tries the same inputs (a new one each time)")
    parser.add_argument("--found", type=Path, help="where new inputs go (a scratch folder)")
    told = parser.parse_args()
    found: Path = told.found or Path(tempfile.mkdtemp(prefix="fuzz-"))
    found.mkdir(parents=True, exist_ok=True)
    atheris: Any = importlib.import_module("atheris")  # ships no types
    # Not `invariant`: it guides nothing, and atheris 2.3, the last one for Python 3.10, turns its assertions wrong.
    with atheris.instrument_imports(include=INSTRUMENTED):
        check = importlib.import_module("tests.fuzz.invariant").check
    limits = [f"-max_total_time={told.seconds}", f"-runs={told.runs}", f"-seed={told.seed}"]
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # the peak of whatever started this counts
    limits += ["-max_len=8192", "-timeout=5", f"-rss_limit_mb={inherited + 1024}"]
    limits += [f"-artifact_prefix={found}/broken-"]
    quiet = ["-verbosity=1", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, *quiet, str(found), str(HERE / "corpus")], Slowest(check, found / "slowest"))
    sys.stderr.write(f"new inputs go to {found}\n")
    atheris.Fuzz()


if __name__ == "__main__":
    main()
