"""Actors that share an event loop, instead of a thread for each.

A pykka actor has an inbox, and a reference that others `tell` messages to. Each of pykka's own actors has a thread.
Ours have none: a message to an actor is posted to its loop. So ten thousand actors are just ten thousand small objects,
messages keep the order in which they were told, and only a loop that sleeps has to be woken.

An exception in an actor is a bug, and ends the actor: its state may be inconsistent. `abandon` then fails the calls
that wait for the actor, with an error that names the bug. The actor's guardian, the actor that started it, is told, and
the other actors go on.

The actor of a machine decides nothing. It feeds events to the machine and performs the effects: the table `PERFORMS` of
its class has a method for each effect.

Only this module imports pykka. It relies on these private names of pykka: the methods for other kinds of actors
(`_create_actor_inbox`, `_start_actor_loop`, `_create_future`), two more methods, and the list and the lock of the
registry, which a forked child has to replace.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import pykka

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.chart import Effect, Event
from pulsar_actors.machines.machine_history import MachineHistory
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.log import LOG, Fields
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.state_changes import read

for _chatty in ("transitions", "pykka"):  # they log several lines for each batch of messages
    if logging.getLogger(_chatty).level == logging.NOTSET:
        logging.getLogger(_chatty).setLevel(logging.WARNING)

ActorRef = pykka.ActorRef[Any]
M = TypeVar("M", bound=StateMachine)
T = TypeVar("T")


class ActorDied(NamedTuple):
    """To the guardian: an actor has ended because of a bug."""

    who: ActorRef
    bug: InternalError


class LoopInbox:
    """The inbox of one actor, which posts to its loop."""

    __slots__ = ("actor", "loop")

    def __init__(self, actor: "LoopActor") -> None:
        self.actor = actor
        self.loop = actor.loop

    def put(self, envelope: Any) -> None:  # noqa: ANN401 - pykka's type is its own
        """Post a message that was told by pykka's means."""
        self.loop.post(self.actor.take, envelope.message)

    def get(self) -> Any:  # noqa: ANN401 - the same
        """Raise: no code of ours waits for a message."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Return True: the messages are in the loop, not here."""
        return True


class StopFlag:
    """The part of `threading.Event` that pykka uses. An Event takes a kilobyte for waiters, and here nothing waits."""

    __slots__ = ("stopped",)

    def __init__(self) -> None:
        self.stopped = False

    def set(self) -> None:
        """Note that the actor has ended."""
        self.stopped = True

    def is_set(self) -> bool:
        """Return whether the actor has ended."""
        return self.stopped


class LoopActor(pykka.Actor):
    """An actor on a loop. Its `guardian` is told if the actor dies of a bug; the client's actor has no guardian.

    Python 3.10 takes half as much memory for a dict of 21 attributes as for one of 22, and a producer's actor has 21.
    """

    actor_stopped: StopFlag  # type: ignore[assignment] # in place of an Event, of which pykka uses no more
    bug: InternalError | None = None  # the bug that ended the actor

    def __init__(self, loop: Loop, guardian: ActorRef | None) -> None:
        self.loop = loop
        self.guardian = guardian
        super().__init__()
        self.actor_stopped = self._actor_ref.actor_stopped = StopFlag()  # type: ignore[assignment] # pykka uses no more

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> ActorRef:  # noqa: ANN401 - the arguments of the class
        """Create the actor, and start it on its loop."""
        made: Any = cls(*args, **kwargs)
        address: ActorRef = made.begin()
        return address

    def begin(self) -> ActorRef:
        """Call `on_start` on the loop, before any message is received. To be called once, from any thread."""
        pykka.ActorRegistry.register(self.actor_ref)
        self._start_actor_loop()
        return self.actor_ref

    @property
    def actor_ref(self) -> ActorRef:
        """The reference to which others tell messages."""
        return self._actor_ref

    def receive(self, message: Any) -> None:  # noqa: ANN401 - each actor says what it takes
        """Take a message."""
        raise NotImplementedError

    def abandon(self, bug: InternalError) -> None:
        """Fail the calls that wait for this actor, because of a bug. The actor counts as ended already."""

    def missed(self, message: Any) -> None:  # noqa: ANN401 - as received
        """Answer a message that came after the end, or that ended the actor by a bug, if an answer is awaited."""

    def machines(self) -> Iterator[tuple[str, StateMachine]]:
        """Iterate over the actor's machines, with the name of each. Any thread may."""
        return iter(())

    def ended_histories(self) -> Iterator[tuple[str, MachineHistory]]:
        """Iterate over the histories of its machines that ended last, with the name of each. Any thread may."""
        return iter(())

    def histories(self) -> Iterator[tuple[str, MachineHistory]]:
        """Iterate over the histories of the machines that ended last, and of the present ones."""
        yield from self.ended_histories()
        for name, machine in self.machines():
            yield name, machine.history

    def log_fields(self) -> Fields:
        """Return whom the actor's lines in the log are about."""
        return {}

    def finish(self) -> None:
        """End the actor: it receives nothing more."""
        self._stop()

    def tell_guardian(self, message: object) -> None:
        """Tell the guardian, if the actor has one."""
        if self.guardian is not None:
            tell(self.guardian, message)

    def take(self, message: Any) -> None:  # noqa: ANN401 - as received
        """Receive the next message, as `guarded` does; what ends the actor is answered, too."""
        if self.actor_stopped.stopped:
            self.missed(message)
            return
        try:
            self.receive(message)
        except Exception as bug:  # noqa: BLE001 - any exception here is a bug
            self._die(bug)
        if self.bug is not None:
            self._answer_dying(message)

    def guarded(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Call a function, unless the actor has ended; an exception ends the actor."""
        if self.actor_stopped.stopped:
            return
        try:
            function(argument)
        except Exception as bug:  # noqa: BLE001 - any exception here is a bug
            self._die(bug)

    def handled(self, name: str, machine: StateMachine, event: Event) -> list[Effect]:
        """Let a machine handle an event, log what that changes, and return the effects."""
        recorded = machine.history.recorded
        effects = machine.handle(event, self.loop.now())
        if machine.history.recorded != recorded:
            self.log_changes(name, machine.history, recorded)
        return effects

    def log_changes(self, name: str, history: MachineHistory, since: int) -> None:
        """Log what a machine has recorded since its history had so many changes."""
        if LOG.is_debugging:
            for change in read([(name, history)], self.loop)[since - history.recorded :]:
                LOG.debug("%s: %s", name, change.without_actor(), about=self.log_fields())

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Call a function after so many seconds, as `guarded` does."""
        self.loop.later(delay, self._due, (function, argument))

    def run_blocking(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        timeout: float,
        executor: str = "blocking",
    ) -> None:
        """Run blocking work, and call `done` with its outcome as `guarded` does. See `Loop.run_blocking`."""
        self.loop.run_blocking(work, lambda outcome: self.guarded(done, outcome), timeout=timeout, executor=executor)

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
        except Exception:  # noqa: BLE001 - it is the code of a caller, or a bug, which is reported
            LOG.exception("%s could not even end what it owed", type(self).__name__)
        self.tell_guardian(ActorDied(self.actor_ref, bug))

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
        """Let the machine handle an event, and perform its effects in their order."""
        machine, performs = self.machine, self.PERFORMS  # looked up once: each look-up takes long here
        recorded = machine.history.recorded  # as `handled`, but without a name for each batch of messages
        effects = machine.handle(event, self.loop.now())
        if machine.history.recorded != recorded:
            self.log_changes(str(self), machine.history, recorded)
        for effect in effects:
            kind = type(effect)
            if kind is StartTimer:
                self._start_timer(effect)
            else:
                performs[kind](self, effect)
        if machine.state in machine.final_states:
            self.over()

    def machines(self) -> Iterator[tuple[str, StateMachine]]:
        """Iterate over the actor's machines."""
        yield str(self), self.machine

    def time_over(self, event: Event) -> None:
        """Feed the machine the event of a timer."""
        self.feed(event)

    def over(self) -> None:
        """End the actor, because its machine is in a final state. May be called more than once."""

    def _start_timer(self, effect: Effect) -> None:
        assert isinstance(effect, StartTimer)  # noqa: S101 - checked by the caller
        self.loop.later(effect.delay, _feed_if_alive, (weakref.ref(self), effect.event))


def _feed_if_alive(timer: tuple["weakref.ref[MachineActor[Any]]", Event]) -> None:
    """Feed a machine the event of a timer. A timer may run for an hour, so it keeps no actor alive that has ended."""
    whose, event = timer
    actor = whose()
    if actor is not None:
        actor.guarded(actor.time_over, event)


def actor_of(address: ActorRef) -> LoopActor:
    """Return the actor, for what any thread may ask it."""
    inbox: Any = address.actor_inbox
    actor: LoopActor = inbox.actor
    return actor


def tell(address: ActorRef, message: Any) -> None:  # noqa: ANN401 - whatever the actor takes
    """Tell an actor a message, from any thread. If the actor has ended, its method `missed` gets the message."""
    inbox: Any = address.actor_inbox
    inbox.loop.post(inbox.actor.take, message)


def forget_actors_on(loops: Sequence[Loop]) -> None:
    """Unregister the actors of loops that have ended."""
    for address in pykka.ActorRegistry.get_all():
        inbox: Any = address.actor_inbox
        if isinstance(inbox, LoopInbox) and inbox.loop in loops:
            address.actor_stopped.set()
            pykka.ActorRegistry.unregister(address)


def forget_all_actors() -> None:
    """Replace the registry in a forked child: another thread may have held its lock during the fork."""
    registry: Any = pykka.ActorRegistry
    registry._actor_refs_lock = threading.RLock()  # noqa: SLF001 - see the module's text
    registry._actor_refs = []  # noqa: SLF001
