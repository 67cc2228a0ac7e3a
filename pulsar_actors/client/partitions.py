"""How many partitions a topic has, and what they are called."""

from pulsar_actors.client.workshop import Workshop
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName


def partitions_of(workshop: Workshop, name: TopicName, what: str) -> int:
    """Ask a broker; 0 stands for a topic that is not partitioned, and nobody need be asked about a partition.

    `what` says, in errors, what that is asked for.
    """
    if name.partition_index >= 0:
        return 0
    return int(workshop.wait_for(workshop.ask(question_about(name)), what).partitions)


def question_about(name: TopicName) -> CommandPartitionedTopicMetadata:
    """Write the question."""
    return CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=True)


def partition_names(workshop: Workshop, topic: str) -> list[str]:
    """List a topic's partitions; of a topic that has none, itself."""
    name = TopicName.parse(topic)
    count = partitions_of(workshop, name, f"asking for the partitions of {topic}")
    return [str(name.partition(index)) for index in range(count)] if count else [str(name)]
