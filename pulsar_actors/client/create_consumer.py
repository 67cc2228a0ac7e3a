"""Creates consumers and readers: asks a broker for the number of partitions, and builds what the topic needs.

A topic without partitions needs one consumer actor. A partitioned topic, a list of topics and a pattern need a consumer
of several topics. A reader is a consumer whose subscription has a generated name and ends with the reader.
"""

import secrets
from collections.abc import Callable
from typing import Any

from pulsar_actors.client.build_consumer import ReaderStart, start_consumer
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import IN_ORDER, ConsumerOptions, ReaderOptions
from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.create_producer import partition_count
from pulsar_actors.client.dead_letters import DeadLetterSender, new_dead_letter_sender, new_retry_letters
from pulsar_actors.client.interceptors import ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.multi_topics_consumer import (
    MultiTopicsConsumer,
    MultiTopicsConsumerState,
    MultiTopicsReader,
    start_multi_topics_consumer,
    topics_text,
)
from pulsar_actors.client.open_handles import OpenHandles
from pulsar_actors.client.reader import Reader
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.topic_name import TopicName


def create_consumer(
    context: ClientContext, open_handles: OpenHandles, options: ConsumerOptions, client: object
) -> Consumer:
    """Create a consumer, and wait until brokers have accepted it."""
    what = f"subscribing to {', '.join(options.topics) or topics_text(options)}"
    if context.telemetry is not None:
        further = context.telemetry.consumer_interceptors()
        options = options.replace(interceptors=(*options.interceptors, *further))
    state = _create_state(context, open_handles, options, None, what)
    retry_letters = new_retry_letters(options, context, open_handles.producers)
    if isinstance(state, MultiTopicsConsumerState):
        consumer: Consumer = MultiTopicsConsumer(state, topics_text(options), client, retry_letters)
    else:
        consumer = Consumer(state, client, retry_letters=retry_letters)
    open_handles.add(consumer)
    _start_listeners(open_handles, consumer, state)
    return consumer


def create_consumer_of_existing(
    context: ClientContext, open_handles: OpenHandles, options: ConsumerOptions, client: object
) -> Consumer:
    """Create a consumer of one partition or one unpartitioned topic, which is never created if it is missing."""
    state = start_consumer(context, options, None, None, may_create=False)
    context.wait_until_created(state, f"subscribing to {options.topics[0]}")
    consumer = Consumer(state, client)
    open_handles.add(consumer)
    return consumer


def create_reader(
    context: ClientContext,
    open_handles: OpenHandles,
    options: ReaderOptions,
    client: object,
    subscription_name: str | None = None,
) -> Reader:
    """Create a reader, and wait until brokers have accepted it and it is at its start."""
    start, consumer_options = start_of_reader(options), consumer_options_of_reader(options, subscription_name)
    what = f"creating a reader on {', '.join(consumer_options.topics)}"
    state = _create_state(context, open_handles, consumer_options, start, what)
    if isinstance(state, MultiTopicsConsumerState):
        reader: Reader = MultiTopicsReader(state, topics_text(consumer_options), client)
    else:
        reader = Reader(state, client)
    open_handles.add(reader)
    if start.is_last:
        try:
            reader.go_to_last()
        except BaseException:
            reader.close_soon()
            raise
    _start_listeners(open_handles, reader, state)
    return reader


def consumer_options_of_reader(options: ReaderOptions, subscription_name: str | None = None) -> ConsumerOptions:
    """Return the options of the consumer behind a reader. Without a name for its subscription, make one."""
    prefix = f"{options.subscription_role_prefix}-" if options.subscription_role_prefix else ""
    return ConsumerOptions(
        topic=options.topic,
        subscription_name=subscription_name or f"{prefix}reader-{secrets.token_hex(5)}",
        schema=options.schema,
        message_listener=options.reader_listener,
        receiver_queue_size=options.receiver_queue_size,
        consumer_name=options.reader_name,
        is_read_compacted=options.is_read_compacted,
        start_message_id_inclusive=options.start_message_id_inclusive,
        crypto_key_reader=options.crypto_key_reader,
        crypto_failure_action=options.crypto_failure_action,
        max_pending_chunked_message=options.max_pending_chunked_message,
        auto_ack_oldest_chunked_message_on_queue_full=options.auto_ack_oldest_chunked_message_on_queue_full,
        expire_time_of_incomplete_chunked_message_ms=options.expire_time_of_incomplete_chunked_message_ms,
        interceptors=[_ReaderInterceptorAdapter(one) for one in options.interceptors],
    )


def start_of_reader(options: ReaderOptions) -> ReaderStart:
    """Return the message that a reader starts at."""
    return ReaderStart(options.start_message_id.wire, options.start_message_id_inclusive)


class _ReaderInterceptorAdapter(ConsumerInterceptor):
    """Adapts an interceptor of a reader to those of a consumer. The handle that it gets is the reader."""

    def __init__(self, interceptor: ReaderInterceptor) -> None:
        self._interceptor = interceptor

    def before_consume(self, consumer: Any, message: Message) -> Message:  # noqa: ANN401 - see above
        return self._interceptor.before_read(consumer, message)

    def close(self) -> None:
        self._interceptor.close()


def _create_state(
    context: ClientContext, open_handles: OpenHandles, options: ConsumerOptions, start: ReaderStart | None, what: str
) -> ConsumerState | MultiTopicsConsumerState:
    if options.dead_letter_policy is not None and options.consumer_type in IN_ORDER:
        # the official client takes the policy, too, so it is no error
        LOG.warning(
            "the dead_letter_policy of %r does nothing: for a consumer of type %s, brokers do not count deliveries",
            options.subscription_name,
            options.consumer_type.name,
            about={"pulsar_subscription": options.subscription_name},
        )
    new_dead_letters = _dead_letter_senders(context, open_handles)
    partitions: int | None = None
    state: ConsumerState | MultiTopicsConsumerState
    if len(options.topics) == 1 == len(options.known_topics):
        partitions = partition_count(context, TopicName.parse(options.topics[0]), what)
        if not partitions:
            state = start_consumer(context, options, start, new_dead_letters(options))
            context.wait_until_created(state, what)
            return state
        if not options.receiver_queue_size:
            raise InvalidConfiguration(
                f"receiver_queue_size=0 asks for one message at a time: {options.topics[0]} has partitions"
            )
    state = start_multi_topics_consumer(context, options, start, new_dead_letters, partitions)
    context.wait_until_created(state, what)
    return state


def _dead_letter_senders(
    context: ClientContext, open_handles: OpenHandles
) -> Callable[[ConsumerOptions], DeadLetterSender | None]:
    """Return a function that makes the sender of dead letters of one topic.

    It keeps neither `open_handles` nor the client.
    """
    producers = open_handles.producers

    def new_dead_letters(options: ConsumerOptions) -> DeadLetterSender | None:
        policy = options.dead_letter_policy
        return None if policy is None else new_dead_letter_sender(policy, options, context, producers)

    return new_dead_letters


def _start_listeners(open_handles: OpenHandles, handle: Consumer | Reader, state: AnyReceivingState) -> None:
    if state.listeners.runner is not None:
        open_handles.keep_until_ended(handle, state.link.ended)
    state.listeners.start(handle, state.receiver_queue, paused=state.options.start_paused)
