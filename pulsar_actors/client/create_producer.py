"""Creates producers: of one topic, or of all partitions of a partitioned topic.

The module of partitioned producers is loaded with the first of them, because most programs have none.
"""

from pulsar_actors.client.build_producer import start_single_producer
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.crypto_key_reader import public_keys_of
from pulsar_actors.client.enums import ProducerCryptoFailureAction
from pulsar_actors.client.open_handles import OpenHandles
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import AnySendingState, ProducerState
from pulsar_actors.exceptions import CryptoError
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.message_crypto import ProducerKeys
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName


def create_producer(
    context: ClientContext, open_handles: OpenHandles, options: ProducerOptions, client: object
) -> Producer:
    """Create a producer, wait until brokers have accepted it, and list it among the client's handles."""
    what = f"creating a producer on {options.topic}"
    partitions = partition_count(context, TopicName.parse(options.topic), what)
    schema = options.schema.for_topic(options.topic, context.schemas)
    if schema is not options.schema:  # a copy checks all options again
        options = options.replace(schema=schema)
    if context.telemetry is not None:
        further = context.telemetry.producer_interceptors()
        options = options.replace(interceptors=(*options.interceptors, *further))
    keys = new_producer_keys(context, options)
    state = start_producer(context, options, partitions, keys=keys)
    context.wait_until_created(state, what)
    producer = new_producer_handle(state, options, client)
    open_handles.producers.add(producer)
    return producer


def new_producer_keys(context: ClientContext, options: ProducerOptions) -> ProducerKeys | None:
    """Read the public keys of a producer in this thread, and make its first data key; None without encryption."""
    if options.crypto_key_reader is None:
        return None
    context.engine.refuse_on_io_thread("create_producer()", "a thread of its own")
    sends_unencrypted = options.crypto_failure_action is ProducerCryptoFailureAction.SEND
    keys = ProducerKeys(
        options.key_names,
        public_keys_of(options.crypto_key_reader),
        note_unencrypted=lambda: LOG.warning("a message to %s is sent unencrypted", options.topic),
    )
    try:
        keys.replace(context.engine.now())
    except CryptoError as error:
        if not sends_unencrypted:
            raise
        LOG.warning("messages to %s are not encrypted: %s", options.topic, error)
    return keys


def start_producer(
    context: ClientContext,
    options: ProducerOptions,
    partitions: int,
    initial_subscription: str = "",
    keys: ProducerKeys | None = None,
) -> AnySendingState:
    """Start a producer of a topic with so many partitions, 0 for a topic that is not partitioned."""
    if not partitions:
        return start_single_producer(context, options, initial_subscription, keys=keys)
    from pulsar_actors.client.partitioned_producer import start_partitioned_producer  # noqa: PLC0415 - see above

    return start_partitioned_producer(context, options, partitions, initial_subscription, keys)


def new_producer_handle(state: AnySendingState, options: ProducerOptions, client: object = None) -> Producer:
    """Make the handle of a producer that brokers have accepted."""
    if isinstance(state, ProducerState):
        return Producer(state, options, client)
    from pulsar_actors.client.partitioned_producer import (  # noqa: PLC0415 - see above
        PartitionedProducer,
        PartitionedProducerState,
    )

    assert isinstance(state, PartitionedProducerState)  # noqa: S101 - the only other kind
    return PartitionedProducer(state, options, client)


def partition_count(context: ClientContext, name: TopicName, what: str) -> int:
    """Ask a broker for the number of partitions of a topic; 0 if it is not partitioned. `what` is for errors."""
    if name.partition_index >= 0:
        return 0
    return int(context.wait_for_answer(context.ask_broker(partition_metadata_request(name)), what).partitions)


def partition_metadata_request(name: TopicName) -> CommandPartitionedTopicMetadata:
    """Write the request for the number of partitions. The broker creates a missing topic."""
    return CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=True)


def partition_names(context: ClientContext, topic: str) -> list[str]:
    """Return the names of a topic's partitions; of a topic that is not partitioned, its own name."""
    name = TopicName.parse(topic)
    count = partition_count(context, name, f"asking for the partitions of {topic}")
    return [str(name.partition(index)) for index in range(count)] if count else [str(name)]
