"""Dice: numbers that depend on the seed and on nothing else.

Each use has dice of its own, named for it, so that a draw more in one place moves nothing in another. They are seeded
with text, and only `random()` is drawn from, because of all that `random.Random` offers only these give the same
numbers on every version of Python.
"""

from random import Random


class Dice:
    """A stream of numbers for one use."""

    __slots__ = ("chance",)

    def __init__(self, seed: int, use: str) -> None:
        self.chance = Random(f"{seed}/{use}").random  # noqa: S311 - nothing is secret here
        """Draw a number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 up to, but not including, the bound."""
        return int(self.chance() * bound)

    def happens(self, probability: float) -> bool:
        """Tell whether something so probable happens this time; what cannot happen costs no draw."""
        return probability > 0.0 and self.chance() < probability
