"""The history of a run: each step, and what the network and the test had to say, with the virtual time.

It holds names and no objects: an object must end when it would have ended without being watched.
"""

from typing import Any


class History:
    """What happened, in order."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[float, str, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, place: str, what: str) -> None:
        """Write a line."""
        self._entries.append((time, place, what))

    def lines(self, last: int | None = None) -> list[str]:
        """Give the last so many lines, or all of them."""
        entries = self._entries if last is None else self._entries[-last:]
        return [f"{time:12.6f}  {place:<28}  {what}" for time, place, what in entries]


def label(function: Any) -> str:  # noqa: ANN401 - whatever can be called
    """Name what is called, without its address."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__
