"""Scripted faults: rules that make the broker misbehave, for tests.

    broker.faults.on("send", nth=3).drop()                           # the third message is lost
    broker.faults.on("receipt").close_connection()                   # stored, but the client never gets the receipt
    broker.faults.on("lookup", times=None).refuse("ServiceNotReady", "busy")
    broker.faults.on_accept(times=2).hang_up()                       # two connections end as they begin
    broker.faults.on("lookup").answer(("lookup_response", {"response": "Failed", "error": "TopicNotFound"}))
    fault = broker.faults.on("ping").stall(); ...; fault.wait(); ...; fault.release()

A fault is for one kind of commands, which also determines the direction: "send" comes from the client, "receipt" from
the broker. The names are those of the protocol in small letters, such as "subscribe", "message", "ack", "seek" or
"new_txn". The only one that is shorter is "receipt", for SEND_RECEIPT. For the few commands that both sides send
(closes, PING, PONG), the client's are meant, unless `sent_by` is given. Commands are counted over all connections, from
the moment when the fault is set, and only if `when` returns true for them. The fault applies to `times` of them,
starting with the `nth`. At most one fault applies to a command, the one that was set first; later ones do not count
that command. A `control` function sees every command before all faults.

All methods may be called from any thread. Predicates and control functions run on the broker's loop and must not block.
With `Fault.wait` a test waits for the fault, and need not sleep.
"""

import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

from google.protobuf.message import Message

from pulsar_actors.broker.fault_commands import (
    AnswerCommand,
    command_class,
    command_from,
    command_name,
    missing_fields,
)
from pulsar_actors.broker.fault_rules import (
    AcceptRule,
    Action,
    Answer,
    CloseConnection,
    CommandRule,
    Control,
    ControlRule,
    Delay,
    Drop,
    Duplicate,
    Fault,
    InterceptedCommand,
    Occurrences,
    Predicate,
    Reception,
    Refuse,
    Reorder,
    Side,
    Stall,
)
from pulsar_actors.broker.session.answers import ServerErrorCode, is_refusable
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandActiveConsumerChange,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandError,
    CommandMessage,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTopicMigrated,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)

__all__ = ["AcceptTrigger", "Faults", "Trigger"]


Sender: TypeAlias = Literal["client", "broker"]

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
"""The commands that only brokers send, besides all with `Response` in their name."""

_OF_BOTH: Final = frozenset({CommandCloseConsumer, CommandCloseProducer, CommandPing, CommandPong})
"""The commands that both sides send."""

_ERRORS: Final = frozenset(ServerError.keys())


class Faults:
    """The faults of one broker. `active` is true while any fault of commands is set."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._lock = threading.Lock()
        self._rules: tuple[CommandRule, ...] = ()
        self._controls: tuple[ControlRule, ...] = ()
        self._receptions: tuple[AcceptRule, ...] = ()
        self.active = False

    def on(
        self,
        kind: str | type[Message],
        *,
        nth: int = 1,
        times: int | None = 1,
        when: Predicate | None = None,
        sent_by: Sender | None = None,
    ) -> "Trigger":
        """Choose commands by their name; a method of the result sets the fault.

        nth = 1
            The first command that the fault applies to, counted from now on: `on("send", nth=3).drop()` loses
            the third message.
        times = 1
            The number of commands that it applies to, one after the other; None for all:
            `on("lookup", times=None).refuse("ServiceNotReady", "busy")`.
        when = None
            A function of the command that returns whether to count it. The fields of the command are
            attributes: `on("send", when=lambda send: send.sequence_id >= 10).drop()`. It is called on the
            broker's loop, and must not block.
        sent_by = None
            "client" or "broker", for a command that both send: `on("ping", sent_by="broker").drop()`. By default
            it is the side that sends such commands, and the client if both do.
        """
        kind = command_class(kind)
        if sent_by not in (None, "client", "broker"):
            raise InvalidArgument(f"sent_by is 'client' or 'broker', not {excerpt(sent_by)}")
        if when is not None:
            _check_function("a predicate", when)
        side = _sender(kind)
        if sent_by is not None and side is not Side(sent_by):
            if kind not in _OF_BOTH:
                raise InvalidArgument(f"{command_name(kind)!r} is sent by the {side.value}, never by the {sent_by}")
            side = Side(sent_by)
        return Trigger(self, (kind, side, Occurrences(nth, times), when))

    def on_accept(self, *, nth: int = 1, times: int | None = 1) -> "AcceptTrigger":
        """Choose connections; a method of the result sets the fault."""
        return AcceptTrigger(self, Occurrences(nth, times))

    def control(self, function: Control) -> Fault:
        """Call a function with every command first. It returns an action, or None to pass the command on."""
        _check_function("a control function", function)
        rule = ControlRule(self._remove, self._release, function)
        with self._lock:
            self._controls = (*self._controls, rule)
            self.active = True
        return rule

    def present(self) -> tuple[Fault, ...]:
        """Return all faults that are set, those included that will not happen any more."""
        return (*self._controls, *self._rules, *self._receptions)

    def clear(self) -> None:
        """Remove all faults, and release all stalled commands."""
        with self._lock:
            self._rules, self._controls, self._receptions = (), (), ()
            self.active = False
        self._release()

    def judge(self, seen: InterceptedCommand) -> Action | None:
        """Return the action for a command; None passes it on. Called on the broker's loop."""
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
        """Return the fault of a new connection; None for no fault. Called on the broker's loop."""
        for rule in self._receptions:
            if rule.which.matches_next():
                rule.note()
                return rule.reception
        return None

    def add(self, what: tuple[type[Message], Side, Occurrences, Predicate | None], action: Action) -> Fault:
        """Set a fault of commands, for `Trigger`."""
        rule = CommandRule(self._remove, self._release, what, action)
        with self._lock:
            self._rules = (*self._rules, rule)
            self.active = True
        return rule

    def add_reception(self, which: Occurrences, reception: Reception) -> Fault:
        """Set a fault of connections, for `AcceptTrigger`."""
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
    """The commands that a fault is for; each method sets it, with an action."""

    def __init__(self, faults: Faults, what: tuple[type[Message], Side, Occurrences, Predicate | None]) -> None:
        self._faults = faults
        self._what = what

    def drop(self) -> Fault:
        """Lose the command."""
        return self.do(Drop())

    def delay(self, seconds: float) -> Fault:
        """Delay the command by so many seconds. Later commands do not wait for it, unlike with `stall`."""
        if type(seconds) not in (int, float) or not seconds >= 0:
            raise InvalidArgument(f"a delay is a number of seconds from 0 on, not {excerpt(seconds)}")
        return self.do(Delay(seconds))

    def duplicate(self) -> Fault:
        """Pass the command on twice."""
        return self.do(Duplicate())

    def reorder(self) -> Fault:
        """Pass the command on after the next one in its direction, on its connection."""
        return self.do(Reorder())

    def close_connection(self) -> Fault:
        """Lose the command and end the connection."""
        return self.do(CloseConnection())

    def answer(self, *commands: AnswerCommand) -> Fault:
        """Lose the command, and send the client these; ids that they leave unset are those of the command.

        Each is the name of a command, or a pair of the name and a dict of its fields:

            faults.on("seek").answer("success")
            faults.on("lookup").answer(("lookup_response", {"response": "Failed", "error": "TopicNotFound"}))

        The label of an enum is a text, a nested message is a dict, and a repeated field is a list.
        """
        kind = self._what[0]
        answers = tuple(command_from(command) for command in commands)
        for answer in answers:
            missing = missing_fields(answer, kind)
            if missing:
                name = command_name(type(answer))
                raise InvalidArgument(f"{name!r} as the answer to {command_name(kind)!r} needs {', '.join(missing)}")
        return self.do(Answer(answers))

    def refuse(self, error: "str | ServerErrorCode", text: str) -> Fault:
        """Lose the command, and send the client the error, in the form that refusals of this command have.

        The error is the name of one of the protocol's, such as "TopicNotFound", or its number.
        """
        kind = self._what[0]
        if not is_refusable(kind):
            raise InvalidArgument(f"{command_name(kind)!r} cannot be refused, for nobody waits for an answer to it")
        return self.do(Refuse(_error(error), text))

    def stall(self) -> Fault:
        """Hold the command and all later ones in its direction, until `Fault.release`."""
        return self.do(Stall())

    def do(self, action: Action) -> Fault:
        """Set the fault with an action as a value."""
        if type(action) not in get_args(Action):
            actions = ", ".join(each.__name__ for each in get_args(Action))
            raise TypeError(f"an action is one of {actions}, not {type(action).__name__}")
        return self._faults.add(self._what, action)


class AcceptTrigger:
    """The connections that a fault is for; each method sets it, with an action."""

    def __init__(self, faults: Faults, which: Occurrences) -> None:
        self._faults = faults
        self._which = which

    def hang_up(self) -> Fault:
        """End the connection at once."""
        return self._faults.add_reception(self._which, Reception(hang_up=True))

    def say_nothing(self) -> Fault:
        """Keep the connection open and never answer."""
        return self._faults.add_reception(self._which, Reception(silent=True))

    def cut_after(self, *, received: int | None = None, sent: int | None = None) -> Fault:
        """End the connection after so many bytes from the client or to it, even in the middle of a frame."""
        if received is None and sent is None:
            raise InvalidArgument("a connection is cut after received or sent, a number of bytes, and neither is given")
        for size in (received, sent):
            if size is not None and (type(size) is not int or size < 0):
                raise InvalidArgument(f"a connection is cut after a number of bytes from 0 on, not {excerpt(size)}")
        return self._faults.add_reception(self._which, Reception(received=received, sent=sent))


def _error(given: object) -> ServerErrorCode:
    """Return the number of an error that may be given by its name. `Refuse` checks it."""
    found: ServerErrorCode = ServerError.Value(given) if given in _ERRORS else given  # type: ignore[assignment]
    return found


def _check_function(what: str, given: object) -> None:
    """Refuse an object that cannot be called, because an error on the broker's loop would not reach the test."""
    if not callable(given):
        raise TypeError(f"{what} is a function, not {type(given).__name__}")


def _sender(kind: type[Message]) -> Side:
    """Return the side that sends a command; the client for commands of both sides."""
    name = kind.DESCRIPTOR.name
    is_answer = name.endswith("Response") and kind is not CommandAuthResponse
    return Side.BROKER if is_answer or kind in _BROKERS else Side.CLIENT
