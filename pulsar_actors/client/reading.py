"""What a reader is made of: the options of a consumer, whose subscription has a name of its own and ends with it."""

import secrets

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming import Start
from pulsar_actors.client.reader_options import ReaderOptions


def as_consumer(options: ReaderOptions) -> ConsumerOptions:
    """Give the options of the consumer that a reader is."""
    prefix = f"{options.subscription_role_prefix}-" if options.subscription_role_prefix else ""
    return ConsumerOptions(
        topic=options.topic,
        subscription_name=f"{prefix}reader-{secrets.token_hex(5)}",
        schema=options.schema,
        receiver_queue_size=options.receiver_queue_size,
        consumer_name=options.reader_name,
        is_read_compacted=options.is_read_compacted,
        start_message_id_inclusive=options.start_message_id_inclusive,
    )


def start_of(options: ReaderOptions) -> Start:
    """Tell where it starts."""
    return Start(options.start_message_id.wire, options.start_message_id_inclusive)
