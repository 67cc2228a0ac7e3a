"""The errors of the package, and who is to blame for each.

PulsarException
├── InvalidArgument       a local mistake: nothing was sent, and repeating the call will not help
│   ├── InvalidTopicName
│   └── InvalidUrl
└── WireError             bytes that break the protocol; the tree below it is in `wire/errors.py`

All of them survive pickling: an error raised in a Spark worker is read on the driver.
"""


class PulsarException(Exception):
    """The root: every error that this package raises on purpose."""


class InvalidArgument(PulsarException, ValueError):
    """The caller passed something that can not work."""


class InvalidTopicName(InvalidArgument):
    """A topic name in none of the forms that Pulsar knows."""


class InvalidUrl(InvalidArgument):
    """A service URL with an unknown scheme, no host, or a bad port."""


class WireError(PulsarException):
    """Bytes that break the protocol: what is wrong, at which byte of the part being read, over how many bytes."""

    def __init__(self, what: str, at: int, size: int) -> None:
        super().__init__(what, at, size)
        self.what = what
        self.at = at
        self.size = size

    def __str__(self) -> str:
        """One sentence for a log line."""
        return f"{self.what} (at byte {self.at:,}, {self.size:,} bytes)"
