"""How a producer or consumer has fared, for anybody to read: what its `stats` tells."""


class Vitals:
    """The vitals of one. Its actor writes them."""

    __slots__ = ("attachments", "last_error")

    def __init__(self) -> None:
        self.attachments = 0
        self.last_error: Exception | None = None

    @property
    def reconnects(self) -> int:
        """How often it has come back to a broker."""
        return max(0, self.attachments - 1)

    @property
    def last_error_text(self) -> str | None:
        """What went wrong last, in words."""
        return None if self.last_error is None else str(self.last_error)
