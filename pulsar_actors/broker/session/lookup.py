"""Where a topic is, and how many partitions it has."""

from typing import Final

from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
)
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["HANDLERS"]


def on_lookup(session: Session, asked: CommandLookupTopic, _: memoryview) -> None:
    """Name the broker that has the topic, or the one that knows.

    A standalone broker tells its clients to come through the address that they have already, since its own may mean
    nothing to them; so does this one, while it is the only one.
    """
    topic = TopicName.parse(asked.topic)
    here = session.here
    here.cluster.namespace(topic.namespace_name)
    way = here.directory.way_to(topic, session.node, authoritative=asked.authoritative)
    address = way.node.address_for(asked.advertised_listener_name)
    answer = CommandLookupTopicResponse
    session.send(
        CommandLookupTopicResponse(
            request_id=asked.request_id,
            response=answer.Redirect if way.redirect else answer.Connect,
            brokerServiceUrl=address.service_url or None,
            brokerServiceUrlTls=address.service_url_tls or None,
            authoritative=way.authoritative,
            proxy_through_service_url=len(here.directory.nodes) == 1,
        )
    )


def on_partitions(session: Session, asked: CommandPartitionedTopicMetadata, _: memoryview) -> None:
    """Give the number of partitions."""
    topic = TopicName.parse(asked.topic)
    count = session.here.cluster.partitions(topic, create=asked.metadata_auto_creation_enabled)
    session.send(
        CommandPartitionedTopicMetadataResponse(
            request_id=asked.request_id, partitions=count, response=CommandPartitionedTopicMetadataResponse.Success
        )
    )


HANDLERS: Final[Handlers] = {
    CommandLookupTopic: on_lookup,
    CommandPartitionedTopicMetadata: on_partitions,
}
