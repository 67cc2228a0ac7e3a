"""Actors that share a loop instead of having a thread each.

pykka's actor is a class with an inbox and a reference that others `tell` things to. Its own kind runs a thread; ours
puts each message on its loop, which is the inbox of all its actors at once. That makes ten thousand actors ten thousand
small objects, keeps their messages in the order in which they were told, and costs one wake-up where a loop sleeps.

An actor that raises has a bug, and is done for: its state may be half of one thing and half of another. It then owes an
end to whoever waits for it. `abandon` gives that, with an error that names the bug, and the guardian hears of the death
so that the others can go on.

A machine's actor is thin: it feeds events to its machine and performs the effects, each by one method, which the table
`PERFORMS` of its class names.

This is the only module that knows pykka. What it takes from its inside are three seams made for other kinds of actors
(`_create_actor_inbox`, `_start_actor_loop`, `_create_future`), the names of two of its methods, and the registry's list
and lock, which a forked child has to have anew.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pykka

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.chart import Effect, Event
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop

for _chatty in ("transitions", "pykka"):  # several lines for each batch of messages, and none that a user can use
    if logging.getLogger(_chatty).level == logging.NOTSET:
        logging.getLogger(_chatty).setLevel(logging.WARNING)

Address = pykka.ActorRef[Any]
M = TypeVar("M", bound=StateMachine)
T = TypeVar("T")


class Died(NamedTuple):
    """To the guardian: an actor has ended by a bug."""

    who: Address
    bug: InternalError


class LoopInbox:
    """The inbox of one actor: a way onto its loop."""

    __slots__ = ("_actor", "loop")

    def __init__(self, actor: "LoopActor") -> None:
        self._actor = actor
        self.loop = actor.loop

    def put(self, envelope: Any) -> None:  # noqa: ANN401 - pykka's type is its own
        """Hand it to the actor on its loop."""
        self.loop.post(self._actor.take, envelope)

    def put_late(self, message: object) -> None:
        """Hand it to an actor that has ended, which may still have an answer."""
        self.loop.post(self._actor.missed, message)

    def get(self) -> Any:  # noqa: ANN401 - the same
        """Refuse: nothing waits here."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Say so: what was put is the loop's."""
        return True


class Flag:
    """What pykka asks of an `Event`, which would bring a kilobyte along for those who wait: here nobody does."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Say that the actor has ended."""
        self._is_set = True

    def is_set(self) -> bool:
        """Tell whether it has."""
        return self._is_set


class LoopActor(pykka.Actor):
    """An actor on a loop. `guardian` hears if it dies; it has none if it is the guardian."""

    def __init__(self, loop: Loop, guardian: Address | None) -> None:
        self.loop = loop
        self.guardian = guardian
        self.bug: InternalError | None = None  # of which it has died
        super().__init__()
        self.actor_stopped = self._actor_ref.actor_stopped = Flag()  # type: ignore[assignment] # all that is asked of it

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> Address:  # noqa: ANN401 - those of the class
        """Make one, and have it begin on its loop."""
        made: Any = cls(*args, **kwargs)
        pykka.ActorRegistry.register(made.actor_ref)
        made._start_actor_loop()  # noqa: SLF001 - pykka's own `start` does the same
        address: Address = made.actor_ref
        return address

    @property
    def actor_ref(self) -> Address:
        """The way to tell it things."""
        return self._actor_ref

    def receive(self, message: Any) -> None:  # noqa: ANN401 - each actor says what it takes
        """Take a message."""
        raise NotImplementedError

    def abandon(self, bug: InternalError) -> None:
        """End what is owed to others, because of a bug. The actor counts as ended already."""

    def missed(self, message: Any) -> None:  # noqa: ANN401 - as received
        """Answer a message, if it wants that, that came after the end or that the actor died of."""

    def finish(self) -> None:
        """End well: nothing more is received."""
        self._stop()

    def tell_guardian(self, message: object) -> None:
        """Tell the guardian, unless this is the guardian."""
        if self.guardian is not None:
            tell(self.guardian, message)

    def take(self, envelope: Any) -> None:  # noqa: ANN401 - pykka's type is its own
        """Receive the next message."""
        if self.actor_stopped.is_set():
            self.missed(envelope.message)
        else:
            self.guarded(self.receive, envelope.message)
            if self.bug is not None:
                self._answer_dying(envelope.message)

    def guarded(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Do something in the actor's name, unless it has ended; what raises ends it."""
        if self.actor_stopped.is_set():
            return
        try:
            function(argument)
        except Exception as bug:  # noqa: BLE001 - a bug is whatever nobody expected
            self._die(bug)

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Do something after so many seconds, in the actor's name."""
        self.loop.later(delay, self._due, (function, argument))

    def off_loop(
        self, work: Callable[[], T], done: Callable[[T | Exception], object], *, timeout: float, helper: str = "helper"
    ) -> None:
        """Do what may block elsewhere; `done` gets the outcome in the actor's name. See `Loop.off_loop`."""
        self.loop.off_loop(work, lambda outcome: self.guarded(done, outcome), timeout=timeout, helper=helper)

    def _due(self, planned: tuple[Callable[[Any], object], Any]) -> None:
        self.guarded(*planned)

    def _answer_dying(self, message: object) -> None:
        try:
            self.missed(message)
        except Exception:  # noqa: BLE001 - as in `guarded`
            LOG.exception("%s could not even answer what it died of", type(self).__name__)

    def _die(self, cause: Exception) -> None:
        bug = InternalError(f"a bug in {type(self).__name__}, please report it: {cause!r}")
        bug.__cause__ = cause
        self.bug = bug
        LOG.error("%s has ended by a bug", type(self).__name__, exc_info=cause)
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        try:
            self.abandon(bug)
        except Exception:  # noqa: BLE001 - it is not ours, or it is a bug, and is told
            LOG.exception("%s could not even end what it owed", type(self).__name__)
        self.tell_guardian(Died(self.actor_ref, bug))

    def _create_actor_inbox(self) -> LoopInbox:  # type: ignore[override] # pykka calls it on the instance
        return LoopInbox(self)

    @staticmethod
    def _create_future() -> Any:  # noqa: ANN401 - never called
        raise NotImplementedError("nobody asks an actor: tell it, and let it answer by telling")

    def _start_actor_loop(self) -> None:
        self.loop.post(self._first_turn, None)

    def _first_turn(self, _: None) -> None:
        self.guarded(lambda _: self.on_start(), None)


class MachineActor(LoopActor, Generic[M]):
    """An actor that performs what a machine decides."""

    PERFORMS: ClassVar[Mapping[type, Callable[[Any, Any], object]]]
    machine: M

    def feed(self, event: Event) -> None:
        """Let the machine decide, and perform its effects in their order."""
        performs = self.PERFORMS
        for effect in self.machine.handle(event, self.loop.now()):
            kind = type(effect)
            if kind is StartTimer:
                self._start_timer(effect)
            else:
                performs[kind](self, effect)
        if self.machine.is_over:
            self.over()

    def over(self) -> None:
        """Do what is left to do when the machine has come to its end; this may be called again."""

    def _start_timer(self, effect: Effect) -> None:
        assert isinstance(effect, StartTimer)  # noqa: S101 - the caller has looked
        self.loop.later(effect.delay, _feed_if_alive, (weakref.ref(self), effect.event))


def _feed_if_alive(timer: tuple["weakref.ref[MachineActor[Any]]", Event]) -> None:
    """Feed a machine with a timer's event. The timer, which may be for an hour, keeps no actor that has ended."""
    whose, event = timer
    actor = whose()
    if actor is not None:
        actor.guarded(actor.feed, event)


def tell(address: Address, message: Any) -> None:  # noqa: ANN401 - whatever the actor takes
    """Tell an actor something, from any thread; one that has ended gets it as missed."""
    try:
        address.tell(message)
    except pykka.ActorDeadError:
        inbox: Any = address.actor_inbox
        inbox.put_late(message)


def forget_actors_on(loops: Sequence[Loop]) -> None:
    """Let go of whatever lives on loops that have ended."""
    for address in pykka.ActorRegistry.get_all():
        inbox: Any = address.actor_inbox
        if isinstance(inbox, LoopInbox) and inbox.loop in loops:
            address.actor_stopped.set()
            pykka.ActorRegistry.unregister(address)


def forget_all_actors() -> None:
    """Start anew in a forked child: another thread may have held the registry's lock while the process was copied."""
    registry: Any = pykka.ActorRegistry
    registry._actor_refs_lock = threading.RLock()  # noqa: SLF001 - see the module's text
    registry._actor_refs = []  # noqa: SLF001
