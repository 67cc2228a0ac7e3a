"""What a reader is made of: the options of a consumer, whose subscription has a name of its own and ends with it."""

import secrets
from typing import Any

from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.reader_options import ReaderOptions
from pulsar_actors.client.message import Message


class _OfReader(ConsumerInterceptor):
    """The interceptor of a reader, as one of the consumer that this is; what is given as a consumer is the reader."""

    def __init__(self, interceptor: ReaderInterceptor) -> None:
        self._interceptor = interceptor

    def before_consume(self, consumer: Any, message: Message) -> Message:  # noqa: ANN401 - see above
        return self._interceptor.before_read(consumer, message)

    def close(self) -> None:
        self._interceptor.close()


def as_consumer(options: ReaderOptions) -> ConsumerOptions:
    """Give the options of the consumer that a reader is."""
    prefix = f"{options.subscription_role_prefix}-" if options.subscription_role_prefix else ""
    return ConsumerOptions(
        topic=options.topic,
        subscription_name=f"{prefix}reader-{secrets.token_hex(5)}",
        schema=options.schema,
        message_listener=options.reader_listener,
        receiver_queue_size=options.receiver_queue_size,
        consumer_name=options.reader_name,
        is_read_compacted=options.is_read_compacted,
        start_message_id_inclusive=options.start_message_id_inclusive,
        max_pending_chunked_message=options.max_pending_chunked_message,
        auto_ack_oldest_chunked_message_on_queue_full=options.auto_ack_oldest_chunked_message_on_queue_full,
        expire_time_of_incomplete_chunked_message_ms=options.expire_time_of_incomplete_chunked_message_ms,
        interceptors=[_OfReader(one) for one in options.interceptors],
    )


def start_of(options: ReaderOptions) -> Start:
    """Tell where it starts."""
    return Start(options.start_message_id.wire, options.start_message_id_inclusive)
