"""The injection of scripted faults into the commands of a connection.

Every connection has two injectors, one for the commands of its client and one for those of the broker. An injector asks
`Faults` for the action for each command, and then passes the command on, drops it, or passes it on later.

Later commands overtake a delayed or reordered command. A stall is different: no later command passes in that direction
until the release; then all pass in order.
"""

from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import Message

from pulsar_actors.broker.fault_commands import with_ids_of
from pulsar_actors.broker.fault_rules import (
    Action,
    Answer,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    EntryBuffers,
    InterceptedCommand,
    Refuse,
    Reorder,
    Side,
    Stall,
)
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.session.answers import refusal_answer
from pulsar_actors.runtime.loop import Loop

__all__ = ["FaultInjector"]


class InjectionTarget(Protocol):
    """The part of a session that its injectors call. A protocol, because the module of sessions imports this one."""

    number: int

    def reply(self, command: Message) -> None:
        """Send the client a command to which no other fault applies."""
        ...

    def close(self, reason: str) -> None:
        """End the connection."""
        ...


class FaultInjector:
    """The faults in one direction of one connection."""

    __slots__ = ("_connection", "_faults", "_held", "_loop", "_pass_on", "_side", "_stalled")

    def __init__(
        self,
        loop: Loop,
        faults: Faults,
        connection: InjectionTarget,
        side: Side,
        pass_on: Callable[[Message, EntryBuffers], None],
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._connection = connection
        self._side = side
        self._pass_on = pass_on
        self._held: list[tuple[Message, EntryBuffers]] = []  # commands of a reorder, held until the next one has passed
        self._stalled: list[tuple[Message, EntryBuffers]] | None = None

    @property
    def is_idle(self) -> bool:
        """True if commands may bypass the injector: no fault is set, and no command waits here."""
        return not (self._faults.active or self._held or self._stalled is not None)

    def take(self, command: Message, entry: EntryBuffers) -> None:
        """Pass a command on, unless a fault applies to it."""
        if self._stalled is not None:
            self._stalled.append((command, entry))
            return
        action = self._faults.judge(InterceptedCommand(command, entry, self._connection.number, self._side))
        if action is None:
            self._let_pass(command, entry)
        else:
            self._perform(action, command, entry)

    def release(self) -> None:
        """End a stall. The commands that waited are taken again, and another fault may apply to them."""
        waiting, self._stalled = self._stalled or [], None
        for command, entry in waiting:
            self.take(command, entry)

    def _perform(self, action: Action, command: Message, entry: EntryBuffers) -> None:
        match action:
            case Drop():
                return
            case Delay(seconds):
                self._loop.later(seconds, self._go_on, (command, entry))
            case Duplicate():
                self._let_pass(command, entry)
                self._let_pass(command, entry)
            case Reorder():
                self._held.append((command, entry))
            case CloseConnection():  # after this call: the model may be in the middle of deliveries
                self._stalled = []
                self._loop.post(self._connection.close, "a scripted fault")
            case Stall():
                self._stalled = [(command, entry)]
            case _:
                for answer in _answers(action, command):
                    self._connection.reply(answer)

    def _let_pass(self, command: Message, entry: EntryBuffers) -> None:
        held, self._held = self._held, []
        self._pass_on(command, entry)
        for late in held:
            self._pass_on(*late)

    def _go_on(self, delayed: tuple[Message, EntryBuffers]) -> None:
        self._pass_on(*delayed)


def _answers(action: Answer | Refuse, command: Message) -> list[Message]:
    if isinstance(action, Answer):
        return [with_ids_of(answer, command) for answer in action.commands]
    refusal = refusal_answer(command, action.error, action.text)
    return [] if refusal is None else [refusal]
