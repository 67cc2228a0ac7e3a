"""The actor of a watch of topics: between its machine, a connection, and whoever wants to know.

The guardian makes it like a producer or a consumer, by `Admit`, and ends it by `CloseHandle`; it retires when its
machine is over. What it has to tell goes to one address, as `TopicsChanged` and at last `WatchEnded`:

    def make(loop, place):
        machine = TopicWatch(place.id, "public/default", "public/default/orders-.*", jitter=loop.chance, timeout=30.0)
        return WatchActor.start(loop, place, machine, self.actor_ref)

    self.tell_guardian(Admit(WATCHER, make, refuse))
"""

from typing import Any, ClassVar, NamedTuple

from pulsar_actors.exceptions import InternalError, Misdirected, PulsarException
from pulsar_actors.machines import connection_events
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.connection_events import Ask
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.topic_watch import TopicWatch
from pulsar_actors.machines.topic_watch_events import (
    AskToStop,
    AskToWatch,
    Attach,
    Begin,
    Changed,
    End,
    Joined,
    Leave,
    Listed,
    Over,
    Parted,
    Refused,
    Report,
)
from pulsar_actors.runtime.actor import Address, MachineActor, tell
from pulsar_actors.runtime.binding_messages import AttachMember, CloseHandle, Joining, Place, Retired
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import WATCHER, Bound, Heard, Member, Replied, Token, Unbound
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess

GOODBYE = 30.0
"""Seconds in which a broker may answer that it has stopped; nobody waits for it."""


class TopicsChanged(NamedTuple):
    """To whoever watches: what has come and gone since the last time; the first time, all that there is."""

    watch: Address
    added: tuple[str, ...]
    removed: tuple[str, ...]


class WatchEnded(NamedTuple):
    """To whoever watches: nothing more will be told. An error says why, unless the end was asked for."""

    watch: Address
    error: PulsarException | None


class WatchActor(MachineActor[TopicWatch]):
    """One watch, which tells `whom`."""

    def __init__(self, loop: Loop, place: Place, machine: TopicWatch, whom: Address) -> None:
        super().__init__(loop, place.guardian)
        self.machine = machine
        self._place = place
        self._whom = whom
        self._connection: Address | None = None

    def on_start(self) -> None:
        """Begin."""
        self.feed(Begin())

    def receive(self, message: object) -> None:
        """Take what the others say."""
        current = self.machine.connection
        match message:
            case Joining(number, connection):
                if number == current:
                    self._connection = connection
                else:
                    tell(connection, connection_events.Leave(self._member(number)))
            case Bound(number, _, _, can_watch):
                self.feed(Joined(number, can_watch))
            case Unbound(number, error):
                if number == current:
                    self._connection = None
                self.feed(Parted(number, error))
            case Heard(number, commands):
                for command, _ in commands:
                    self.feed(Changed(number, command))
            case Replied(question, answer):
                self._answered(question, answer)
            case CloseHandle() | EndAtOnce():
                self.feed(End())
            case _:
                raise InternalError(f"a watch does not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Say why nothing more is told."""
        self._leave(Leave())
        tell(self._whom, WatchEnded(self.actor_ref, bug))

    def missed(self, message: object) -> None:
        """Leave a connection that was found too late."""
        if isinstance(message, Joining):
            tell(message.connection, connection_events.Leave(self._member(message.number)))

    def over(self) -> None:
        """Go."""
        self.tell_guardian(Retired(self.actor_ref))
        self.finish()

    def _answered(self, number: int, answer: Any) -> None:  # noqa: ANN401 - any answer
        if isinstance(answer, CommandWatchTopicListSuccess):
            self.feed(Listed(number, answer))
        elif isinstance(answer, PulsarException):
            self.feed(Refused(number, answer))
        else:
            self.feed(Refused(number, Misdirected(f"the broker answered a watch with {type(answer).__name__}")))

    def _member(self, number: int) -> Member:
        return Member(WATCHER, self._place.id, self.actor_ref, number)

    # One method for each effect.

    def _attach(self, effect: Attach) -> None:
        self.tell_guardian(AttachMember(SERVICE_URL, self._place.slot, self._member(effect.connection)))

    def _leave(self, _: Leave) -> None:
        if self._connection is not None:
            tell(self._connection, connection_events.Leave(self._member(self.machine.connection)))
        self._connection = None

    def _ask(self, effect: AskToWatch) -> None:
        if self._connection is not None:
            tell(self._connection, Ask(effect.command, Token(self.actor_ref, self.machine.connection), effect.timeout))

    def _ask_to_stop(self, effect: AskToStop) -> None:
        if self._connection is not None:
            tell(self._connection, Ask(effect.command, Token(self.actor_ref, None), GOODBYE))

    def _report(self, effect: Report) -> None:
        tell(self._whom, TopicsChanged(self.actor_ref, effect.added, effect.removed))

    def _over(self, effect: Over) -> None:
        if effect.error is not None:
            LOG.info("topics are not watched: %s", effect.error)
        tell(self._whom, WatchEnded(self.actor_ref, effect.error))

    PERFORMS: ClassVar = {
        Attach: _attach,
        Leave: _leave,
        AskToWatch: _ask,
        AskToStop: _ask_to_stop,
        Report: _report,
        Over: _over,
    }
