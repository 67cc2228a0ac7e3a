"""What consumers and readers are alike in: a queue, an actor, and an end."""

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.listener import Pump
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receiving import Receiving
from pulsar_actors.client.stats import ConsumerStats, RateMeter
from pulsar_actors.exceptions import InvalidArgument, ProcessForked
from pulsar_actors.machines.consumer import Consumer as Machine
from pulsar_actors.machines.consumer_events import AskForLast, LastMessage, Seek
from pulsar_actors.runtime.ack_box import AckBox
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_actor import CloseHandle, Ties
from pulsar_actors.runtime.debts import anew, settle
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.wire.topic_name import TopicName

H = TypeVar("H", bound="Handle")


class ConsumerParts:
    """What a consumer's handle shares with its actor."""

    __slots__ = (
        "__weakref__", "acks", "address", "engine", "hand_off", "machine", "operation_timeout", "options", "pump",
        "ties",
    )  # fmt: skip

    address: Address
    machine: Machine
    hand_off: HandOff
    acks: AckBox

    def __init__(self, engine: Engine, options: ConsumerOptions, operation_timeout: float) -> None:
        self.engine = engine
        self.options = options
        self.operation_timeout = operation_timeout
        self.pump: Pump | None = None
        self.ties = Ties(engine.interleaving)

    def end(self, error: Exception) -> None:
        """Hand out nothing from now on, where there is no actor any longer to say so."""
        self.hand_off.end(error)
        self.ties.debts.end(error)
        settle(self.ties.ended, None)

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""
        self.hand_off.forget(error)
        self.ties.debts.closed = error


class Handle:
    """The base of Consumer and Reader."""

    def __init__(self, parts: ConsumerParts, what: str, client: object) -> None:
        self._parts = parts
        self._what = what
        self._client = client  # it must not be collected while it is in use
        self._address = parts.address
        self._refused = 0
        self._topic = str(TopicName.parse(parts.options.topics[0]))
        has_listener = parts.pump is not None
        self._receiving = Receiving(parts.engine, parts.hand_off, self._address, what, has_listener=has_listener)
        self._meter = RateMeter(parts.engine.loops[0].now())
        self._finalizer = weakref.finalize(self, tell, self._address, CloseHandle())
        self._finalizer.atexit = False

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._topic

    def is_connected(self) -> bool:
        """Tell whether a broker is sending to it now. If none is, it is trying to find one."""
        return self._parts.hand_off.closed is None and self._parts.machine.is_bound

    def seek(self, messageid: MessageId | int) -> None:
        """Go to a message, or to the first one published at a time (milliseconds since 1970) or later.

        What was received before counts for nothing any longer: acknowledgements of it that are still on their way are
        void, and what is in the queue is dropped. Without a connection to a broker it waits for one, for as long as
        `operation_timeout_seconds` allows.
        """
        target = _seek_target(messageid)
        self._parts.engine.refuse_inside("seek()", "another thread")
        self._call(lambda done: Seek(done, target), f"seek() of {self._what}")

    def close(self) -> None:
        """Send the acknowledgements that are left, and end it. Closing it again does nothing.

        In a callback this begins the close, and does not wait for its end.
        """
        self._refuse_if_forked()
        tell(self._address, CloseHandle())
        self._finalizer.detach()
        if not self._parts.engine.is_inside():
            self._parts.engine.block(self._parts.ties.ended, None, f"close() of {self._what}")

    def stats(self) -> ConsumerStats:
        """Return how things stand: what is queued, what came, how fast, and the last thing that went wrong."""
        self._refuse_if_forked()
        parts = self._parts
        queued, opened = parts.hand_off.queued, parts.hand_off.opened_messages
        received = max(0, opened - parts.hand_off.left_open)
        error = parts.ties.vitals.last_error
        return ConsumerStats(
            topic=self._topic,
            subscription_name=parts.options.subscription_name,
            consumer_name=parts.options.consumer_name or "",
            connected=self.is_connected(),
            queued=queued,
            permits=max(0, parts.machine.deliveries.ledgers.permits.at_broker),
            received=received,
            received_bytes=parts.hand_off.opened_bytes,
            acknowledged=parts.acks.emptied,
            refused=self._refused,
            rates=self._meter.rates(received, parts.hand_off.opened_bytes, parts.engine.loops[0].now()),
            reconnects=max(0, parts.ties.vitals.attachments - 1),
            last_error=None if error is None else str(error),
        )

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        name = type(self).__name__
        raise TypeError(f"a {name} holds connections and cannot be pickled: make one where it is needed")

    def _ask_for_last(self) -> LastMessage:
        parts = self._parts
        parts.engine.refuse_inside("asking for the last message", "another thread")
        timeout = parts.operation_timeout
        deadline = parts.engine.loops[0].now() + timeout
        done: SlimFuture[LastMessage] = SlimFuture()
        self._refuse_if_closed()
        parts.ties.debts.owe(done)
        tell(self._address, AskForLast(done, deadline))
        return parts.engine.block(done, None, f"asking {self._what} for the last message")

    def _call(self, ask: Callable[[SlimFuture[None]], object], what: str) -> None:
        self._refuse_if_closed()
        done: SlimFuture[None] = SlimFuture()
        self._parts.ties.debts.owe(done)
        tell(self._address, ask(done))
        self._parts.engine.block(done, None, what)

    def _refuse_if_closed(self) -> None:
        if self._parts.hand_off.closed is not None:
            raise anew(self._parts.hand_off.closed)

    def _refuse_if_forked(self) -> None:
        if isinstance(self._parts.hand_off.closed, ProcessForked):
            raise anew(self._parts.hand_off.closed)


def _seek_target(given: object) -> Any:  # noqa: ANN401 - an id of the wire or a time
    if isinstance(given, MessageId):
        return given.wire
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise InvalidArgument(f"messageid takes a MessageId or milliseconds since 1970, got {type(given).__name__}")
