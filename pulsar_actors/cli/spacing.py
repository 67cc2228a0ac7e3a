"""Things in a row that keep their distance: each as near to where it wishes to be as its neighbours allow.

The sum of the squared distances from the wishes, each times its weight, is as small as it can be. Taking the required
gaps off first turns the problem into fitting a sequence that never falls, which pooling neighbours that are in each
other's way solves exactly: a pool stands at the mean of its members' wishes.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class _Pool(NamedTuple):
    weight: float
    moment: float
    members: int

    @property
    def place(self) -> float:
        return self.moment / self.weight


def spread(wishes: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Give the places, in order; `gaps[i]` is the least distance from thing i to thing i + 1."""
    offsets = [0.0, *accumulate(gaps)][: len(wishes)]
    pools: list[_Pool] = []
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        pool = _Pool(weight, weight * (wish - offset), 1)
        while pools and pools[-1].place > pool.place:
            before = pools.pop()
            pool = _Pool(before.weight + pool.weight, before.moment + pool.moment, before.members + pool.members)
        pools.append(pool)
    places = [pool.place for pool in pools for _ in range(pool.members)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]
