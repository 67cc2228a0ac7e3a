"""The kept corpus on every Python, and a short guided run wherever there is a fuzzer to install."""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.errors import DecompressionFailed
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").iterdir())
RUNS = 5_000

check: Callable[[bytes], None] = runpy.run_path(str(HERE / "invariant.py"))["check"]


def fuzzer_is_required() -> bool:
    """Ask the package's own requirements: atheris has no wheel for every platform and Python."""
    required = map(Requirement, metadata.requires("pulsar-actors") or [])
    markers = [each.marker for each in required if each.name == "atheris"]
    assert markers, "the extra `test` requires atheris nowhere"
    return any(marker is None or marker.evaluate({"extra": "test"}) for marker in markers)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_invariant_holds_for_the_kept_corpus(path: Path) -> None:
    check(path.read_bytes())


def test_an_unknown_codec_is_refused_however_its_tag_is_spelt() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
    overlong_tag, unknown_codec = b"\xc0\x00", b"\x05"  # the tag is 0x40, here as a varint of two bytes
    metadata += overlong_tag + unknown_codec
    with pytest.raises(DecompressionFailed):
        decode_entry(len(metadata).to_bytes(4, "big") + metadata + b"payload")


def test_the_kept_corpus_is_small() -> None:
    assert 50 < len(CORPUS) <= 500
    assert sum(path.stat().st_size for path in CORPUS) < 500_000


@pytest.mark.skipif(not fuzzer_is_required(), reason="the extra `test` requires no atheris on this platform")
def test_the_invariant_holds_in_a_short_guided_run(tmp_path: Path) -> None:
    arguments = [f"--runs={RUNS}", "--seed=1", "--seconds=300", f"--found={tmp_path}"]
    ran = subprocess.run(  # noqa: S603 -- our own words
        [sys.executable, str(HERE / "fuzz.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=360,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done = re.search(r"Done (\d+) runs", ran.stderr)
    assert done is not None, ran.stderr
    assert int(done[1]) >= RUNS
