"""Whether this broker has the topic that a producer or a consumer wants; each must ask before it begins."""

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.session import Session
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["served_here"]


def served_here(session: Session, text: str) -> TopicName:
    """Read the topic's name; Refusal unless this broker serves it."""
    topic = TopicName.parse(text)
    if not session.here.directory.serves(session.node, topic):
        raise Refusal(
            ServerError.ServiceNotReady,
            f"Namespace bundle ({topic.namespace_name}/0x00000000_0xffffffff) for topic ({topic}) not served by this "
            f"instance:{session.node.name}. Please redo the lookup.",
        )
    return topic
