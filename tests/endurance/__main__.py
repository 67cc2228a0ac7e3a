"""Run a load, watch what the process holds, and fail if it grows.

python -m tests.endurance mixture --seconds 7200 --picture docs/endurance.svg
python -m tests.endurance threads --seconds 120
python -m tests.endurance cycles --cycles 10000
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pulsar_actors as pulsar
from tests.chaos.target import EmbeddedProcess
from tests.endurance.gauges import Reading, faults, growth, read
from tests.endurance.loads import ManyThreads, Mixture, short_lives

READINGS = 240


def watch_mixture(service_url: str, seconds: float) -> tuple[list[Reading], list[str]]:
    """Run the mixture, and read the gauges at equal distances."""
    mixture, began = Mixture(service_url, "persistent://public/default/endurance"), time.monotonic()
    readings: list[Reading] = []
    while (passed := time.monotonic() - began) < seconds and not mixture.errors:
        readings.append(read(passed, mixture.counted.done))
        time.sleep(seconds / READINGS)
    return readings, mixture.stop(60.0)


def watch_cycles(service_url: str, cycles: int) -> tuple[list[Reading], list[str]]:
    """Run short lives, and read the gauges at equal distances."""
    began, readings = time.monotonic(), list[Reading]()

    def look(cycle: int) -> None:
        if cycle % max(1, cycles // READINGS) == 0:
            readings.append(read(time.monotonic() - began, cycle))

    short_lives(service_url, "persistent://public/default/cycles", cycles, look)
    return readings, []


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__.partition("\n")[0])
    parser.add_argument("load", choices=("mixture", "threads", "cycles"))
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)s)")
    parser.add_argument("--cycles", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--service-url", help="a broker (default: an embedded one, in a process of its own)")
    parser.add_argument("--picture", type=Path, help="a file for the curves")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        target = EmbeddedProcess(Path(folder)) if given.service_url is None else None
        if target is not None:
            target.start()
        try:
            return run(given, given.service_url or target.service_url)  # type: ignore[union-attr]
        finally:
            if target is not None:
                target.close()


def run(given: argparse.Namespace, service_url: str) -> int:
    """Run the load on a broker."""
    if given.load == "threads":
        with closing(pulsar.Client(service_url)) as client:
            threads = ManyThreads(client, "persistent://public/default/threads")
            wrong = threads.run(given.seconds)
        print("\n".join(wrong) or f"{len(threads.told):,} messages, each with one callback and one delivery")
        return int(bool(wrong))
    mixes = given.load == "mixture"
    readings, wrong = watch_mixture(service_url, given.seconds) if mixes else watch_cycles(service_url, given.cycles)
    wrong += faults(readings)
    last = readings[-1]
    print(f"{last.done:,} {'messages' if mixes else 'cycles'} in {last.seconds:,.0f} s")
    for field in ("kilobytes", "threads", "descriptors"):
        before, after = getattr(readings[len(readings) // 4], field), getattr(last, field)
        print(f"{field}: {before:,} after a quarter, {after:,} at the end, {growth(readings, field):+.1%}")
    if given.picture is not None:
        from tests.endurance.picture import picture  # noqa: PLC0415 - only where it is wanted

        given.picture.write_text(picture(readings))
    print("\n".join(wrong) or "level")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
