"""Sizes and rectangles, in pixels of a picture whose y grows downwards."""

from typing import NamedTuple


class Size(NamedTuple):
    """The size of something that has no place yet."""

    width: int
    height: int


class Rectangle(NamedTuple):
    """A place: its left upper corner, and its size."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first column beyond it."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The first line below it."""
        return self.y + self.height
