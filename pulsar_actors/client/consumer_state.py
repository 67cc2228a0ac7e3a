"""The state that the handle of a consumer or a reader shares with its actor, and the listeners behind it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from pulsar_actors.client.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.handle import HandleState
from pulsar_actors.client.interceptors import ConsumerEventListener
from pulsar_actors.client.listeners import EventCaller, ListenerFunction, ListenerRunner
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.consumer import ConsumerMachine
from pulsar_actors.machines.consumer_events import RedeliveryRequested
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.ack_queue import AckQueue
from pulsar_actors.runtime.actor import ActorRef
from pulsar_actors.runtime.engine import Engine, Worker
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.receiver_queue import ReceiverQueue
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase
from pulsar_actors.wire.topic_name import TopicName

M = TypeVar("M", bound=ConsumerMachine | MultiTopics)
Q = TypeVar("Q", bound=ReceiverQueueBase)


class ReceivingState(HandleState[M], Generic[M, Q]):
    """The state of a consumer or a reader, of one topic or of several."""

    __slots__ = ("listeners", "operation_timeout", "options", "receiver_queue")

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: M,
        address: ActorRef,
        options: ConsumerOptions,
        operation_timeout: float,
        receiver_queue: Q,
        listeners: "ConsumerListeners",
    ) -> None:
        super().__init__(engine, link, machine, address)
        self.options = options
        self.operation_timeout = operation_timeout
        self.receiver_queue = receiver_queue
        self.listeners = listeners

    @property
    def closed(self) -> Exception | None:
        """The error with which calls are refused, or None while messages are handed out."""
        return self.receiver_queue.closed

    def end(self, error: PulsarException) -> None:
        """Stop handing out messages. The consumers of several topics are ended one by one."""
        self.receiver_queue.end(error)
        super().end(error)

    def forget(self, error: Exception) -> None:
        """Stop handing out messages, in a forked child."""
        self.receiver_queue.forget(error)
        super().forget(error)


AnyReceivingState: TypeAlias = ReceivingState[Any, Any]


class ConsumerState(ReceivingState[ConsumerMachine, ReceiverQueue]):
    """The state of a consumer or a reader of one topic."""

    __slots__ = ("ack_queue", "negatively_acknowledged")

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: ConsumerMachine,
        address: ActorRef,
        options: ConsumerOptions,
        operation_timeout: float,
        receiver_queue: ReceiverQueue,
        listeners: "ConsumerListeners",
        ack_queue: AckQueue,
    ) -> None:
        super().__init__(engine, link, machine, address, options, operation_timeout, receiver_queue, listeners)
        self.ack_queue = ack_queue
        self.negatively_acknowledged = 0


class ConsumerListeners(NamedTuple):
    """The user's listeners and interceptors. A consumer of several topics has one of these objects for all topics."""

    runner: ListenerRunner | None = None
    event_listener: ConsumerEventListener | None = None
    event_caller: EventCaller | None = None
    interceptors: ConsumerInterceptors | None = None

    def start(self, handle: object, receiver_queue: ReceiverQueueBase, *, paused: bool) -> None:
        """Start calling the listeners: from now on there is a handle to pass to them."""
        if self.event_caller is not None:
            self.event_caller.start(handle)
        if self.runner is not None:
            self.runner.start(handle, receiver_queue, paused=paused)

    @property
    def messages_arrived(self) -> Callable[[], None] | None:
        """The callback for new messages, or for the end of messages."""
        return None if self.runner is None else self.runner.messages_arrived

    def active_changed(self, topic: TopicName) -> Callable[[bool], None] | None:
        """Return the callback for changes of the active consumer of a topic."""
        if self.event_listener is None or self.event_caller is None:
            return None
        return partial(_report_active_change, self.event_listener, self.event_caller, topic.partition_index)

    def redelivery_requested(self, topic: TopicName) -> Callable[[RedeliveryRequested], None] | None:
        """Return the callback for messages of a topic whose redelivery was requested."""
        return None if self.interceptors is None else partial(self.interceptors.on_redelivery_requested, topic)


def new_consumer_listeners(
    options: ConsumerOptions, link: HandleLink, name: str, next_worker: Callable[[], Worker]
) -> ConsumerListeners:
    """Set up the listeners of the options, on one worker. `name` is for the log."""
    listener = options.message_listener
    if listener is None and not options.wants_notifications:
        return ConsumerListeners()
    worker = next_worker()
    interceptors = event_caller = None
    if options.wants_notifications:
        event_caller = EventCaller(worker, name)
    if options.interceptors and event_caller is not None:
        interceptors = ConsumerInterceptors(options.interceptors, name, event_caller)
        link.ended.add_done_callback(partial(_close_interceptors, interceptors))
        listener = None if listener is None else _intercepting_listener(interceptors, listener)
    runner = None if listener is None else ListenerRunner(worker, listener, name)
    return ConsumerListeners(runner, options.consumer_event_listener, event_caller, interceptors)


def _intercepting_listener(interceptors: ConsumerInterceptors, listener: ListenerFunction) -> ListenerFunction:
    return lambda handle, message: listener(handle, interceptors.apply(handle, message))


def _close_interceptors(interceptors: ConsumerInterceptors, _: object) -> None:
    interceptors.close()


def _report_active_change(
    event_listener: ConsumerEventListener, event_caller: EventCaller, partition: int, is_active: bool
) -> None:
    call = event_listener.became_active if is_active else event_listener.became_inactive
    event_caller.call_with_handle(lambda consumer: call(consumer, partition))
