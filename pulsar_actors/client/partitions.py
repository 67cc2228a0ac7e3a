"""How many partitions a topic has, and what cannot be done with several yet."""

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import OperationNotSupported
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName


def partitions_of(workshop: Workshop, name: TopicName, what: str) -> int:
    """Ask a broker; 0 stands for a topic that is not partitioned. `what` says, in errors, what that is asked for."""
    command = CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=True)
    return int(workshop.wait_for(workshop.ask(command), what).partitions)


def partition_names(workshop: Workshop, topic: str) -> list[str]:
    """List a topic's partitions; of a topic that has none, itself."""
    name = TopicName.parse(topic)
    count = partitions_of(workshop, name, f"asking for the partitions of {topic}")
    return [str(name.partition(index)) for index in range(count)] if count else [str(name)]


def refuse_partitioned(workshop: Workshop, topic: str, what: str) -> None:
    """Refuse a topic that is partitioned. A partition is a topic like any other."""
    name = TopicName.parse(topic)
    if name.partition_index < 0 and partitions_of(workshop, name, what):
        raise OperationNotSupported(
            f"{name} is partitioned, which is not there yet: use its partitions, see get_topic_partitions()"
        )


def refuse_several(workshop: Workshop, options: ConsumerOptions, what: str) -> None:
    """Refuse several topics in one consumer."""
    match options.topics:
        case (topic,):
            refuse_partitioned(workshop, topic, what)
        case ():
            raise OperationNotSupported("a pattern of topics is not there yet: subscribe to each topic")
        case _:
            raise OperationNotSupported("several topics at once are not there yet: subscribe to each of them")
