"""What a watch of topics hears and what it answers with: the events and effects of `topic_watch.py`.

Each event's class is its trigger in the chart. A `connection` counts the attachments, so that whatever comes over an
earlier one is told apart.
"""

from typing import NamedTuple

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

# Events of our own side.


class Begin(NamedTuple):
    """Begin to watch."""


class End(NamedTuple):
    """Watch no longer."""


# Events of connections, of the broker and of timers.


class Joined(NamedTuple):
    """There is a connection that can be used; whether its broker takes watches was in CONNECTED."""

    connection: int
    can_watch: bool


class Parted(NamedTuple):
    """There is none, or it has ended."""

    connection: int
    error: PulsarException


class Listed(NamedTuple):
    """The broker watches from now on, and gives the topics that match now."""

    connection: int
    command: CommandWatchTopicListSuccess


class Refused(NamedTuple):
    """The broker refused, or did not answer in time."""

    connection: int
    error: PulsarException


class Changed(NamedTuple):
    """Topics have come or gone."""

    connection: int
    command: CommandWatchTopicUpdate


class RetryDue(NamedTuple):
    """It is time to try again."""

    generation: int


# Effects.


class Attach(NamedTuple):
    """Join a connection to the service URL; answer with `Joined` or `Parted`, which carry the same number."""

    connection: int


class Leave(NamedTuple):
    """Leave that connection to others."""


class AskToWatch(NamedTuple):
    """Ask on that connection; answer with `Listed` or `Refused`."""

    command: CommandWatchTopicList
    timeout: float


class AskToStop(NamedTuple):
    """Have the broker watch no longer; nobody waits for the answer."""

    command: CommandWatchTopicListClose


class Report(NamedTuple):
    """Tell which topics have come and which have gone since the last report."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class Over(NamedTuple):
    """Tell that nothing more will be reported; the error says why, unless that was asked for."""

    error: PulsarException | None
