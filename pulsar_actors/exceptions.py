"""The errors of the package, and who is to blame for each.

PulsarException
├── InvalidArgument        a local mistake: nothing was sent, and repeating the call will not help
│   ├── InvalidTopicName
│   └── InvalidUrl
├── AlreadyClosed          a local mistake too: the handle was closed before the call, or while it waited
├── ConnectError           no broker was reached: nothing was done, trying later may help
├── Misdirected            the brokers' answers lead to none that serves the topic: nothing was done
├── LimitReached           as much is on its way as this client allows: nothing was done, trying later helps
├── BrokerRefusal          the broker understood and said no; `code` is its word for why
│   └── AuthenticationError
├── OutcomeUnknown         the request left and no answer came: it may have been done, or not
│   ├── Timeout
│   └── ConnectionLost
├── WireError              bytes that break the protocol; the tree below it is in `wire/errors.py`
└── InternalError          a bug of this package: please report it with the text

All of them survive pickling: an error raised in a Spark worker is read on the driver.
"""


class PulsarException(Exception):
    """The root: every error that this package raises on purpose."""


class InvalidArgument(PulsarException, ValueError):
    """The caller passed something that cannot work."""


class InvalidTopicName(InvalidArgument):
    """A topic name in none of the forms that Pulsar knows."""


class InvalidUrl(InvalidArgument):
    """A service URL with an unknown scheme, no host, or a bad port."""


class AlreadyClosed(PulsarException):
    """The client, producer, consumer or connection is closed."""


class ConnectError(PulsarException):
    """No connection could be made."""


class Misdirected(PulsarException):
    """The brokers' answers name no broker, or each other in a circle."""


class LimitReached(PulsarException):
    """More was asked for at once than a limit of this client allows."""


class BrokerRefusal(PulsarException):
    """The broker answered with an error: `code` is the name of its ServerError, `reason` its own words."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        """Say both."""
        return f"{self.code}: {self.reason}"


class AuthenticationError(BrokerRefusal):
    """The broker did not accept the credentials, or none could be had."""


class OutcomeUnknown(PulsarException):
    """Whether the broker has done it cannot be told from here."""


class Timeout(OutcomeUnknown):
    """No answer came in time."""


class ConnectionLost(OutcomeUnknown):
    """The connection ended before the answer came."""


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


class InternalError(PulsarException):
    """A bug of this package, not of its caller or of the broker."""
