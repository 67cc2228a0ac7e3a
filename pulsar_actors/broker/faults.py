"""Scripted faults: what the broker does wrong, when told to.

    broker.faults.on(CommandSend, nth=3).drop()                      # the third message is lost
    broker.faults.on(CommandSendReceipt).close_connection()          # it is stored, and sent again: nobody heard of it
    broker.faults.on(CommandLookupTopic, times=None).refuse(ServerError.ServiceNotReady, "busy")
    broker.faults.on_accept(times=2).hang_up()                       # two connections end as they begin
    fault = broker.faults.on(CommandPing).stall(); ...; fault.wait(); ...; fault.release()

A fault names a command by its class, so it says by itself in which direction it looks: CommandSend is the client's and
CommandSendReceipt the broker's. The few that both sides send (closes, PING, PONG) are the client's unless `sent_by`
says otherwise. Commands are counted over all connections from the moment the fault is set, and only those for which
`when` holds; the `nth` of them and those after it, `times` in all, meet the fault. A command meets one fault at most,
that which was set first, and those set later do not count it. `control` gives a function every command, before all
faults.

Everything here may be called from any thread. Predicates and control functions run on the broker's loop and must not
wait. `Fault.wait` is for tests: it ends when the fault has happened, so that no test need sleep.
"""

import threading
from collections.abc import Callable
from typing import Final, get_args

from google.protobuf.message import Message

from pulsar_actors.broker.session.answers import Error, is_refusable
from pulsar_actors.broker.session.fault_actions import (
    Action,
    Answer,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    Refuse,
    Reorder,
    Seen,
    Side,
    Stall,
)
from pulsar_actors.broker.session.fault_rules import (
    AcceptRule,
    CommandRule,
    Control,
    ControlRule,
    Count,
    Fault,
    Predicate,
)
from pulsar_actors.broker.session.reception import Reception
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import (
    BaseCommand,
    CommandActiveConsumerChange,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnected,
    CommandError,
    CommandMessage,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTopicMigrated,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

__all__ = ["AcceptTrigger", "Faults", "Trigger"]

_BROKERS: Final = frozenset(
    {
        CommandActiveConsumerChange,
        CommandAuthChallenge,
        CommandConnected,
        CommandError,
        CommandMessage,
        CommandProducerSuccess,
        CommandReachedEndOfTopic,
        CommandSendError,
        CommandSendReceipt,
        CommandSuccess,
        CommandTopicMigrated,
        CommandWatchTopicListSuccess,
        CommandWatchTopicUpdate,
    }
)
"""What only brokers send, beside everything that is called a response."""

_COMMANDS: Final = frozenset(field.message_type for field in BaseCommand.DESCRIPTOR.fields if field.message_type)


class Faults:
    """The faults of one broker. `active` says whether commands need be looked at at all."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._lock = threading.Lock()
        self._rules: tuple[CommandRule, ...] = ()
        self._controls: tuple[ControlRule, ...] = ()
        self._receptions: tuple[AcceptRule, ...] = ()
        self.active = False

    def on(
        self,
        kind: type[Message],
        *,
        nth: int = 1,
        times: int | None = 1,
        when: Predicate | None = None,
        sent_by: Side | None = None,
    ) -> "Trigger":
        """Say when something goes wrong; what it is, a method of the result says."""
        if not _is_command(kind):
            raise InvalidArgument(f"a fault is set on the class of a command, such as CommandSend, not {excerpt(kind)}")
        if sent_by not in {None, *Side}:
            raise InvalidArgument(f"sent_by is Side.CLIENT or Side.BROKER, not {excerpt(sent_by)}")
        if when is not None:
            _check_function("a predicate", when)
        return Trigger(self, (kind, sent_by or _sender(kind), Count(nth, times), when))

    def on_accept(self, *, nth: int = 1, times: int | None = 1) -> "AcceptTrigger":
        """Say to which connections something happens; what it is, a method of the result says."""
        return AcceptTrigger(self, Count(nth, times))

    def control(self, function: Control) -> Fault:
        """Give a function every command first: it returns what shall happen to it, or None to let it pass."""
        _check_function("a control function", function)
        rule = ControlRule(self._remove, self._release, function)
        with self._lock:
            self._controls = (*self._controls, rule)
            self.active = True
        return rule

    def clear(self) -> None:
        """Remove every fault, and let everything go on that stalled."""
        with self._lock:
            self._rules, self._controls, self._receptions = (), (), ()
            self.active = False
        self._release()

    def judge(self, seen: Seen) -> Action | None:
        """Say what happens to a command; None lets it pass. The broker asks, on its loop."""
        for control in self._controls:
            action = control.function(seen)
            if action is not None:
                control.note()
                return action
        for rule in self._rules:
            if rule.applies(seen):
                rule.note()
                return rule.action
        return None

    def receive(self) -> Reception | None:
        """Say what happens to a connection that has just come; None means nothing. The broker asks, on its loop."""
        for rule in self._receptions:
            if rule.which.meets():
                rule.note()
                return rule.reception
        return None

    def add(self, what: tuple[type[Message], Side, Count, Predicate | None], action: Action) -> Fault:
        """Set a fault of commands; `Trigger` does that."""
        rule = CommandRule(self._remove, self._release, what, action)
        with self._lock:
            self._rules = (*self._rules, rule)
            self.active = True
        return rule

    def add_reception(self, which: Count, reception: Reception) -> Fault:
        """Set a fault of connections; `AcceptTrigger` does that."""
        rule = AcceptRule(self._remove, self._release, which, reception)
        with self._lock:
            self._receptions = (*self._receptions, rule)
        return rule

    def _remove(self, gone: Fault) -> None:
        with self._lock:
            self._rules = tuple(rule for rule in self._rules if rule is not gone)
            self._controls = tuple(rule for rule in self._controls if rule is not gone)
            self._receptions = tuple(rule for rule in self._receptions if rule is not gone)
            self.active = bool(self._rules or self._controls)


class Trigger:
    """When a fault happens; each method says what happens then, and sets it."""

    def __init__(self, faults: Faults, what: tuple[type[Message], Side, Count, Predicate | None]) -> None:
        self._faults = faults
        self._what = what

    def drop(self) -> Fault:
        """Lose it."""
        return self.do(Drop())

    def delay(self, seconds: float) -> Fault:
        """Let it go on so many seconds later; what is behind it does not wait. To hold those as well, stall."""
        if not seconds >= 0:
            raise InvalidArgument(f"a delay is a number of seconds from 0 on, not {excerpt(seconds)}")
        return self.do(Delay(seconds))

    def duplicate(self) -> Fault:
        """Let it come twice."""
        return self.do(Duplicate())

    def reorder(self) -> Fault:
        """Let the next command in its direction, on its connection, go first."""
        return self.do(Reorder())

    def close_connection(self) -> Fault:
        """Lose it and end the connection."""
        return self.do(CloseConnection())

    def answer(self, *commands: Message) -> Fault:
        """Lose it, and send the client these instead; ids that they leave unset are those of the lost command."""
        for command in commands:
            if not _is_command(type(command)):
                raise InvalidArgument(f"an answer is a command, such as CommandSuccess(), not {excerpt(command)}")
        return self.do(Answer(commands))

    def refuse(self, error: Error, text: str) -> Fault:
        """Lose it, and send the client the error instead, in the form that this command's refusals have."""
        kind = self._what[0]
        if not is_refusable(kind):
            raise InvalidArgument(f"{kind.__name__} cannot be refused, for nobody waits for an answer to it")
        return self.do(Refuse(error, text))

    def stall(self) -> Fault:
        """Hold it back, and everything behind it in its direction, until `Fault.release`."""
        return self.do(Stall())

    def do(self, action: Action) -> Fault:
        """Set it, with the action as a value."""
        if type(action) not in get_args(Action):
            actions = ", ".join(each.__name__ for each in get_args(Action))
            raise TypeError(f"an action is one of {actions}, not {type(action).__name__}")
        return self._faults.add(self._what, action)


class AcceptTrigger:
    """Which connections a fault meets; each method says what happens to them, and sets it."""

    def __init__(self, faults: Faults, which: Count) -> None:
        self._faults = faults
        self._which = which

    def hang_up(self) -> Fault:
        """End it as it begins."""
        return self._faults.add_reception(self._which, Reception(hang_up=True))

    def say_nothing(self) -> Fault:
        """Keep it open and never answer."""
        return self._faults.add_reception(self._which, Reception(silent=True))

    def cut_after(self, *, received: int | None = None, sent: int | None = None) -> Fault:
        """End it when so many bytes have come from the client, or have gone to it: in mid-frame, if that is there."""
        if received is None and sent is None:
            raise InvalidArgument("a connection is cut after received or sent, a number of bytes, and neither is given")
        for size in (received, sent):
            if size is not None and size < 0:
                raise InvalidArgument(f"a connection is cut after a number of bytes from 0 on, not {excerpt(size)}")
        return self._faults.add_reception(self._which, Reception(received=received, sent=sent))


def _is_command(kind: object) -> bool:
    return isinstance(kind, type) and getattr(kind, "DESCRIPTOR", None) in _COMMANDS


def _check_function(what: str, given: object) -> None:
    """Refuse what cannot be called: the broker would find out on its loop, where nobody sees it."""
    if not callable(given):
        raise TypeError(f"{what} is a function, not {type(given).__name__}")


def _sender(kind: type[Message]) -> Side:
    """Tell who sends it; of what both send, the client's is meant."""
    name = kind.DESCRIPTOR.name
    is_answer = name.endswith("Response") and kind is not CommandAuthResponse
    return Side.BROKER if is_answer or kind in _BROKERS else Side.CLIENT
