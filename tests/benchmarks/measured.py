"""Measurements of a contest: medians, ranges, and ratios between clients; and whether a rate has settled.

A ratio above 1 means that this client is better: more messages a second, or less time. A round is one turn of each
client, so a ratio is that of two turns which followed each other.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

OURS: Final = "ours"
HIGHER_IS_BETTER: Final = {"msg/s"}

WINDOW: Final = 5
"""Rounds whose median is compared with that of as many rounds before."""

WITHIN: Final = 0.1
"""The change of that median, as a share of it, below which a rate has settled."""


class Spread(NamedTuple):
    """The median of some values, and the least and the greatest of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of values, of which there is at least one."""
        return cls(statistics.median(values), min(values), max(values))


class Line(NamedTuple):
    """One line of a table: the values of each client, one for each round, and its CPU time for a message.

    `build` is the build of this client. `mebibytes` is what each process had at the end of a turn, if that was asked.
    """

    name: str
    unit: str
    values: Mapping[str, Sequence[float]]
    cpu_microseconds: Mapping[str, Sequence[float]]
    build: str = ""
    mebibytes: Mapping[str, Sequence[float]] = MappingProxyType({})

    def median(self, client: str) -> float | None:
        """Return a client's median, if it was measured."""
        return statistics.median(self.values[client]) if self.values.get(client) else None

    def spread(self, client: str) -> Spread | None:
        """Return a client's values, if it was measured."""
        return Spread.of(self.values[client]) if self.values.get(client) else None

    def cpu(self, client: str) -> Spread | None:
        """Return a client's CPU time for a message, if it was measured."""
        return Spread.of(self.cpu_microseconds[client]) if self.cpu_microseconds.get(client) else None

    def ratio(self, to: str) -> Spread | None:
        """Return how many times as good this client is as another one, round by round."""
        both = list(zip(self.values.get(OURS, ()), self.values.get(to, ()), strict=False))  # a client may have failed
        if not both:
            return None
        higher = self.unit in HIGHER_IS_BETTER
        return Spread.of([ours / other if higher else other / ours for ours, other in both])


def percentile(times: Sequence[float], percent: float) -> float:
    """Return the time that so many of a hundred do not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * percent / 100))]


def has_settled(values: Sequence[float]) -> bool:
    """Is the median of the last rounds close to that of the rounds before them?"""
    if len(values) < 2 * WINDOW:
        return False
    before, last = statistics.median(values[-2 * WINDOW : -WINDOW]), statistics.median(values[-WINDOW:])
    return abs(last - before) < WITHIN * before


def rate(answer: Mapping[str, Any]) -> float:
    """Return the messages a second of one turn."""
    return float(answer["messages"] / answer["seconds"])


def lines(name: str, unit: str, answers: Mapping[str, Sequence[Mapping[str, Any]]], build: str = "") -> list[Line]:
    """Return the lines of a contest, from the answers of each client: two of times, one of rates."""
    cpu = _each(
        answers, lambda answer: [answer["cpu"] / answer["messages"] * 1e6] if answer.get("cpu") is not None else []
    )
    if unit == "ms":
        return [
            Line(
                f"{name}, p{percent}",
                unit,
                _each(answers, lambda answer, percent=percent: [percentile(answer["times"], percent) * 1e3]),
                cpu if percent == 50 else {},
                build,
            )
            for percent in (50, 99)
        ]
    memory = _each(answers, lambda answer: [answer["resident"] / 2**20] if "resident" in answer else [])
    return [Line(name, unit, _each(answers, lambda answer: [rate(answer)]), cpu, build, memory)]


def _each(answers: Mapping[str, Sequence[Mapping[str, Any]]], value: Any) -> dict[str, list[float]]:
    """Return the values of each client's answers, without those that have none."""
    return {client: _flat(value(answer) for answer in given) for client, given in answers.items()}


def _flat(values: Iterable[Sequence[float]]) -> list[float]:
    return [one for each in values for one in each]
