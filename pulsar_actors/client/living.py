"""Things for as long as somebody holds them, listed while other threads add some and let go of others.

A standard weak set may not change while it is walked through. Here each change, and the taking of a list, is one step
for the interpreter, so that there is no lock that a fork could catch in the wrong hands, nor the garbage collector.
"""

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Living(Generic[T]):
    """A collection that keeps nothing alive. Any thread may use it."""

    __slots__ = ("_things",)

    def __init__(self) -> None:
        self._things: dict[int, weakref.ref[T]] = {}

    def add(self, thing: T) -> None:
        """Note it, until it is gone."""
        number, things = id(thing), self._things
        things[number] = weakref.ref(thing, lambda _: things.pop(number, None))

    def discard(self, thing: T) -> None:
        """Forget it."""
        self._things.pop(id(thing), None)

    def __iter__(self) -> Iterator[T]:
        alive = [reference() for reference in list(self._things.values())]
        return iter([thing for thing in alive if thing is not None])
