"""A connection that nobody listens to: a fault keeps it open and says nothing, or has ended it already."""

__all__ = ["Deaf"]


class Deaf:
    """Owns a transport and does nothing with it."""

    __slots__ = ()

    def opened(self) -> None:
        """Do nothing."""

    def received(self, data: bytes) -> None:
        """Do nothing."""

    def writable(self) -> None:
        """Do nothing."""

    def lost(self, reason: str) -> None:
        """Do nothing."""
