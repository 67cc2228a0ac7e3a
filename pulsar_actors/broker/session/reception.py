"""What can happen to a connection as a whole: how it is received, and how far it gets."""

from typing import NamedTuple

__all__ = ["Reception"]


class Reception(NamedTuple):
    """`hang_up` ends it as it begins; `silent` never answers; else it ends after so many bytes in one direction."""

    hang_up: bool = False
    silent: bool = False
    received: int | None = None
    sent: int | None = None
