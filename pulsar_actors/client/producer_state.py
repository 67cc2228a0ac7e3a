"""The state that a producer's handle shares with its actor."""

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, TypeAlias, TypeVar

from pulsar_actors.client.enqueuer import Enqueuer, SendQueueEnqueuer
from pulsar_actors.client.handle import HandleState
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.producer import ProducerMachine
from pulsar_actors.runtime.actor import ActorRef
from pulsar_actors.runtime.batch_builder import PackedMessages
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.handle_link import HandleLink

M = TypeVar("M")


class SendingState(HandleState[M]):
    """The state of a producer. `send_callbacks` completes the sends."""

    __slots__ = ("enqueuer", "interceptors", "send_callbacks")

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: M,
        address: ActorRef,
        enqueuer: Enqueuer,
        send_callbacks: SendCallbacks,
        interceptors: ProducerInterceptors | None,
    ) -> None:
        super().__init__(engine, link, machine, address)
        self.enqueuer = enqueuer
        self.send_callbacks = send_callbacks
        self.interceptors = interceptors

    @abstractmethod
    def members(self) -> Collection["ProducerState"]:
        """Return the state of each partition that has a producer."""

    def failed(self) -> int:
        """Count the messages that have failed, including those that no partition of a partitioned producer took."""
        callbacks = {self.send_callbacks, *(state.send_callbacks for state in self.members())}
        return sum(one.failed + one.refused for one in callbacks)


AnySendingState: TypeAlias = SendingState[Any]


class ProducerState(SendingState[ProducerMachine]):
    """The state of a producer of one topic partition."""

    __slots__ = ("send_queue",)

    enqueuer: SendQueueEnqueuer

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: ProducerMachine,
        address: ActorRef,
        enqueuer: SendQueueEnqueuer,
        interceptors: ProducerInterceptors | None = None,
    ) -> None:
        super().__init__(engine, link, machine, address, enqueuer, enqueuer.send_callbacks, interceptors)
        self.send_queue = enqueuer.send_queue

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self.send_queue.closed

    def end(self, error: PulsarException) -> None:
        """Fail pending messages and calls, and refuse further ones."""
        self.send_queue.end(error)
        for failed in self.send_queue.pending.fail_all():
            packed = failed.token
            assert isinstance(packed, PackedMessages)  # noqa: S101 - the token of a pending send
            self.send_callbacks([(packed.release(), failed.error_for(error))])
        super().end(error)

    def members(self) -> Collection["ProducerState"]:
        """Return this state as the only one."""
        return (self,)

    def forget(self, error: Exception) -> None:
        """Refuse calls, in a forked child."""
        self.send_queue.forget(error)
        super().forget(error)
