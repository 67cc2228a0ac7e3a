"""Topics without partitions, and single partitions: made, listed, looked into, unloaded, ended, deleted."""

from typing import Final

from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.bodies import as_flag, as_strings
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.messages import batch_size
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, EMPTY, Response, as_json
from pulsar_actors.broker.web.routes import Route

__all__ = ["TOPIC_ROUTES", "described", "message_id", "refuse_existing", "refuse_in_use"]

_MODES = {"ALL": None, "PERSISTENT": "persistent", "NON_PERSISTENT": "non-persistent"}


def message_id(position: Position, size: int = 0) -> dict[str, int]:
    """Write a message id as Pulsar's JSON has it; in a batch it is the last message's."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": -1,
        "batchSize": size,
        "batchIndex": size - 1,
    }


def refuse_existing(call: Call) -> None:
    """Refuse to make a topic of a name that there is, with partitions or without."""
    if call.partition_count() or call.cluster.find_topic(call.topic_name()) is not None:
        raise HttpRefusal(409, "This topic already exists")


def _list_topics(call: Call) -> Response:
    """List one domain, or both, as the path or the query says."""
    name = call.namespace().name
    if "domain" in call.parts:
        return as_json(call.cluster.topics_of(name, call.parts["domain"]))
    mode = call.query.get("mode", "PERSISTENT")
    if mode not in _MODES:
        raise HttpRefusal(404, f"mode is one of {', '.join(_MODES)}")
    persistent = call.cluster.topics_of(name, "persistent") if mode != "NON_PERSISTENT" else []
    passing = call.cluster.topics_of(name, "non-persistent") if mode != "PERSISTENT" else []
    return as_json(persistent + passing)


def _create(call: Call) -> Response:
    name = call.topic_name()
    call.namespace()
    _check_partition_name(call)
    refuse_existing(call)
    properties = as_strings(call.value(), "the value of a topic's properties")
    call.cluster.create_topic(name).properties.update(properties)
    return DONE


def _check_partition_name(call: Call) -> None:
    """Let a name that looks like a partition's be nothing else."""
    name = call.topic_name()
    index = name.partition_index
    if index < 0:
        return
    base = name.base
    count = call.cluster.namespaces[name.namespace_name].partitioned.get(str(base), 0)
    start = f'Can\'t create topic {name.local_name} with "-partition-" followed by'
    if not count:
        raise HttpRefusal(412, f"{start} numeric value if there isn't a partitioned topic {base.local_name} created.")
    if index >= count:
        raise HttpRefusal(
            412, f"{start} a number smaller than number of partition of partitioned topic {base.local_name}"
        )


def _delete(call: Call) -> Response:
    name = call.topic_name()
    if call.partition_count():
        raise HttpRefusal(
            409,
            f"{name} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic.",
        )
    refuse_in_use(call, [call.topic()])
    call.cluster.delete_topic(name, force=True)
    return DONE


def refuse_in_use(call: Call, topics: list[Topic]) -> None:
    """Refuse to delete what somebody is connected to, unless they force it; subscriptions alone are no reason."""
    if call.flag("force"):
        return
    for topic in topics:
        consumers = sum(len(subscription.consumers) for subscription in topic.subscriptions.values())
        producers = len(topic.producers)
        if consumers + producers:
            raise HttpRefusal(
                412,
                f"Topic has {consumers + producers} clients connected Including {consumers} consumers, "
                f"{producers} producers, and 0 replicators.",
            )


def _tell_properties(call: Call) -> Response:
    return as_json(call.topic().properties)


def _tell_stats(call: Call) -> Response:
    return as_json(described(call, call.topic()))


def described(call: Call, topic: Topic) -> dict[str, object]:
    """Give a topic's statistics, with the one that the model does not know."""
    return {**topic.stats(), "ownerBroker": call.site.broker_id}


def _tell_internal_stats(call: Call) -> Response:
    return as_json(call.topic().internal_stats())


def _tell_last_message_id(call: Call) -> Response:
    topic = call.topic()
    if not topic.name.is_persistent:
        raise HttpRefusal(405, f"GetLastMessageId on a non-persistent topic is not allowed: {topic.name}")
    last = topic.last_position()
    return as_json(message_id(last, batch_size(topic, last)))


def _unload(call: Call) -> Response:
    call.topics()
    call.cluster.unload(call.topic_name())
    return DONE


def _terminate(call: Call) -> Response:
    name = call.topic_name()
    if not name.is_persistent:
        raise HttpRefusal(406, "Need to provide a persistent topic name")
    if call.partition_count():
        raise HttpRefusal(405, "Termination of a partitioned topic is not allowed")
    return as_json(message_id(call.topic().terminate()))


def _tell_deduplication(call: Call) -> Response:
    """Tell what the topic's own policy says, or with `applied` what counts in the end."""
    decided = call.topics()[0].deduplication
    if decided is None and call.flag("applied"):
        decided = call.namespace().policies.deduplication
        decided = call.cluster.settings.deduplication if decided is None else decided
    return EMPTY if decided is None else as_json(decided)


def _set_deduplication(call: Call) -> Response:
    value = call.value()
    decided = None if value is None else as_flag(value, "deduplicationEnabled")
    for topic in call.topics():
        topic.deduplication = decided
    return DONE


def _unset_deduplication(call: Call) -> Response:
    for topic in call.topics():
        topic.deduplication = None
    return DONE


_TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
TOPIC_ROUTES: Final = (
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}", _list_topics),
    Route("GET", "/admin/v2/namespaces/{tenant}/{namespace}/topics", _list_topics),
    Route("PUT", _TOPIC, _create),
    Route("DELETE", _TOPIC, _delete),
    Route("GET", f"{_TOPIC}/properties", _tell_properties),
    Route("GET", f"{_TOPIC}/stats", _tell_stats),
    Route("GET", f"{_TOPIC}/internalStats", _tell_internal_stats),
    Route("GET", f"{_TOPIC}/lastMessageId", _tell_last_message_id),
    Route("PUT", f"{_TOPIC}/unload", _unload),
    Route("POST", f"{_TOPIC}/terminate", _terminate),
    Route("GET", f"{_TOPIC}/deduplicationEnabled", _tell_deduplication),
    Route("POST", f"{_TOPIC}/deduplicationEnabled", _set_deduplication),
    Route("DELETE", f"{_TOPIC}/deduplicationEnabled", _unset_deduplication),
)
