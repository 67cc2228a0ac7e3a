"""Play runs, show how they go, and fail if a promise was broken or a recovery took too long.

python -m tests.chaos                            # every fault once, on an Apache Pulsar
python -m tests.chaos --runs 50 --json chaos.json
python -m tests.chaos --broker cluster           # two brokers, ZooKeeper and a bookie
python -m tests.chaos --sum chaos-1.json chaos-2.json
python -m tests.chaos --broker embedded --faults "freeze,black hole" --seconds 5
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.faults import FAULTS, Fault, fault_of, is_possible
from tests.chaos.run import Ran, Run, as_json, from_json
from tests.chaos.summary import Live, percentile, table
from tests.chaos.target import ApacheCluster, ApachePulsar, EmbeddedProcess, Target

LONGEST_RECOVERY = 5.0
TARGETS: dict[str, type[Target]] = {"apache": ApachePulsar, "cluster": ApacheCluster, "embedded": EmbeddedProcess}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--broker", choices=TARGETS, default="apache")
    parser.add_argument("--runs", type=int, default=1, help="runs of each fault (default: %(default)s)")
    parser.add_argument("--faults", help=f"some of: {', '.join(fault.name for fault in FAULTS)} (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first run (default: %(default)s)")
    parser.add_argument("--seconds", type=float, help="how long faults last at most (default: each as it is)")
    parser.add_argument("--json", type=Path, help="a file to add the figures of each run to")
    parser.add_argument("--sum", type=Path, nargs="+", help="play nothing; show the figures in these files together")
    given = parser.parse_args(arguments)
    if given.sum:
        print(*table([ran for file in given.sum for ran in read(file)]), sep="\n")
        return 0
    wanted = FAULTS if given.faults is None else [fault_of(name.strip()) for name in given.faults.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        target = TARGETS[given.broker](Path(folder))
        try:
            target.start()
            runs = play(target, given, [fault for fault in wanted if is_possible(fault, target)])
        finally:
            target.close()
    took = percentile([seconds for ran in runs for seconds in ran.recovery.values()], 0.99)
    if took > LONGEST_RECOVERY:
        print(f"the recovery took {took:.2f} s (p99), and may take {LONGEST_RECOVERY:g} s")
    return int(took > LONGEST_RECOVERY or any(ran.broken for ran in runs))


def play(target: Target, given: argparse.Namespace, faults: Sequence[Fault]) -> list[Ran]:
    """Play each fault in turn, as often as is asked for."""
    live, runs = Live(given.runs * len(faults)), list[Ran]()
    before = read(given.json) if given.json is not None and given.json.exists() else []
    for seed in range(given.seed, given.seed + given.runs):
        for fault in faults:
            ran = Run(target, fault, seed, given.seconds).play()
            runs.append(ran)
            live.add(ran)
            if given.json is not None:
                write(given.json, [*before, *runs])
    live.end()
    return runs


def read(file: Path) -> list[Ran]:
    """Return the runs in a file."""
    return [from_json(run) for run in json.loads(file.read_text())]


def write(file: Path, runs: Sequence[Ran]) -> None:
    """Put runs into a file, a line each."""
    file.write_text("[\n" + ",\n".join(json.dumps(as_json(each)) for each in runs) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
