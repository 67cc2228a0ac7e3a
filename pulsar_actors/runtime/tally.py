"""What one client has at the moment, for anybody to read: what its `stats` tells. Each number has one writer."""


class Tally:
    """The numbers."""

    __slots__ = ("connections", "lookups")

    def __init__(self) -> None:
        self.connections = 0
        self.lookups = 0
