"""A small chart to draw."""

from tests.support.kettle import altered_kettle, kettle

__all__ = ["altered_kettle", "kettle"]
