"""The admin calls for topics, single partitions and partitioned topics."""

from typing import Final

from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.stats import internal_stats, topic_stats
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.calls import MAX_PARTITIONS, Route, WebCall, as_flag, as_number, as_object, as_strings
from pulsar_actors.broker.web.http import EMPTY_OK, NO_CONTENT, HttpRefusal, Response, json_response
from pulsar_actors.broker.web.subscriptions import batch_size
from pulsar_actors.wire.transaction_requests import ASSIGNMENT_TOPIC

__all__ = ["TOPIC_ROUTES"]


_MODES = {"ALL": None, "PERSISTENT": "persistent", "NON_PERSISTENT": "non-persistent"}


def _message_id_json(position: Position, size: int = 0) -> dict[str, int]:
    """Write a message id in Pulsar's JSON; for a batch, the id of its last message."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": -1,
        "batchSize": size,
        "batchIndex": size - 1,
    }


def _refuse_existing(call: WebCall) -> None:
    """Refuse to create a topic with the name of another, with partitions or without."""
    if call.partition_count() or call.cluster.find_topic(call.topic_name()) is not None:
        raise HttpRefusal(409, "This topic already exists")


def _list_topics(call: WebCall) -> Response:
    """List the topics of one domain, or of both, by the path or the query."""
    name = call.namespace().name
    if "domain" in call.parts:
        return json_response(call.cluster.topics_of(name, call.parts["domain"]))
    mode = call.query.get("mode", "PERSISTENT")
    if mode not in _MODES:
        raise HttpRefusal(404, f"mode is one of {', '.join(_MODES)}")
    persistent = call.cluster.topics_of(name, "persistent") if mode != "NON_PERSISTENT" else []
    non_persistent = call.cluster.topics_of(name, "non-persistent") if mode != "PERSISTENT" else []
    return json_response(persistent + non_persistent)


def _create_topic(call: WebCall) -> Response:
    name = call.topic_name()
    call.namespace()
    _check_partition_name(call)
    _refuse_existing(call)
    properties = as_strings(call.value(), "the value of a topic's properties")
    call.cluster.create_topic(name, properties)
    return NO_CONTENT


def _check_partition_name(call: WebCall) -> None:
    """Refuse a name that looks like a partition's, but is none."""
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


def _delete_topic(call: WebCall) -> Response:
    name = call.topic_name()
    if call.partition_count():
        raise HttpRefusal(
            409,
            f"{name} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic.",
        )
    _refuse_in_use(call, [call.topic()])
    call.cluster.delete_topic(name, force=True)
    return NO_CONTENT


def _refuse_in_use(call: WebCall, topics: list[Topic]) -> None:
    """Refuse to delete topics with connected clients, unless forced. Subscriptions without consumers do not matter."""
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


def _get_properties(call: WebCall) -> Response:
    return json_response(call.topic().properties)


def _get_topic_stats(call: WebCall) -> Response:
    return json_response(_stats_with_owner(call, call.topic()))


def _stats_with_owner(call: WebCall, topic: Topic) -> dict[str, object]:
    """Return a topic's statistics, with the broker that serves it."""
    return {**topic_stats(topic), "ownerBroker": call.context.broker_id}


def _get_topic_internal_stats(call: WebCall) -> Response:
    return json_response(internal_stats(call.topic()))


def _get_last_message_id(call: WebCall) -> Response:
    topic = call.topic()
    if not topic.name.is_persistent:
        raise HttpRefusal(405, f"GetLastMessageId on a non-persistent topic is not allowed: {topic.name}")
    last = topic.last_position()
    return json_response(_message_id_json(last, batch_size(topic, last)))


def _unload_topic(call: WebCall) -> Response:
    """Unload a topic, or the transaction coordinators of the partitions of the topic that assigns them."""
    name = call.topic_name()
    if name.base == ASSIGNMENT_TOPIC:
        call.cluster.coordinators.unload(str(name))
        return NO_CONTENT
    call.topics()
    call.cluster.unload(name)
    return NO_CONTENT


def _terminate_topic(call: WebCall) -> Response:
    name = call.topic_name()
    if not name.is_persistent:
        raise HttpRefusal(406, "Need to provide a persistent topic name")
    if call.partition_count():
        raise HttpRefusal(405, "Termination of a partitioned topic is not allowed")
    return json_response(_message_id_json(call.topic().terminate()))


def _get_deduplication(call: WebCall) -> Response:
    """Return the topic's own policy; with `applied`, the one that applies to it."""
    deduplication = call.topics()[0].deduplication
    if deduplication is None and call.flag("applied"):
        deduplication = call.namespace().policies.deduplication
        deduplication = call.cluster.settings.deduplication if deduplication is None else deduplication
    return EMPTY_OK if deduplication is None else json_response(deduplication)


def _set_deduplication(call: WebCall) -> Response:
    value = call.value()
    deduplication = None if value is None else as_flag(value, "deduplicationEnabled")
    for topic in call.topics():
        topic.set_deduplication(deduplication)
    return NO_CONTENT


def _unset_deduplication(call: WebCall) -> Response:
    for topic in call.topics():
        topic.set_deduplication(None)
    return NO_CONTENT


def _list_partitioned(call: WebCall) -> Response:
    start = f"{call.parts['domain']}://"
    return json_response(sorted(name for name in call.namespace().partitioned if name.startswith(start)))


def _create_partitioned(call: WebCall) -> Response:
    name = call.topic_name()
    call.namespace()
    if name.partition_index >= 0:
        raise HttpRefusal(412, "Partitioned Topic Name should not contain '-partition-'")
    count = _wanted_partitions(call)
    if count <= 0:
        raise HttpRefusal(406, "Number of partitions should be more than 0")
    _refuse_existing(call)
    call.cluster.create_partitioned(name, count)
    return NO_CONTENT


def _wanted_partitions(call: WebCall) -> int:
    """Read the number of partitions, given alone or in an object."""
    value = call.value()
    number = (
        value if isinstance(value, int) else as_object(value, "what is not a number of partitions").get("partitions")
    )
    count = as_number(number, "the number of partitions")
    if count > MAX_PARTITIONS:
        raise HttpRefusal(406, f"Number of partitions should be less than or equal to {MAX_PARTITIONS}")
    return count


def _grow_partitioned(call: WebCall) -> Response:
    name = call.topic_name()
    wanted = _wanted_partitions(call)
    count = call.partition_count()
    if not count:
        raise HttpRefusal(409, f"Topic {name} is not the partitioned topic.")
    if wanted <= 0:
        raise HttpRefusal(422, "Number of partitions should be more than 0")
    if wanted < count:
        raise HttpRefusal(422, f"Desired partitions {wanted} can't be less than the current partitions {count}.")
    if wanted > count:
        call.cluster.grow(name, wanted)
    return NO_CONTENT


def _delete_partitioned(call: WebCall) -> Response:
    name = call.topic_name()
    if not call.partition_count():
        if call.cluster.find_topic(name) is None:
            raise HttpRefusal(404, f"Topic {name} not found.")
        raise HttpRefusal(
            409,
            f"{name} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.",
        )
    _refuse_in_use(call, call.topics())
    call.cluster.delete_partitioned(name, force=True)
    return NO_CONTENT


def _check_partitioned(call: WebCall) -> None:
    if not call.partition_count():
        raise HttpRefusal(404, f"Partitioned Topic {call.topic_name()} not found")


def _get_partitioned_stats(call: WebCall) -> Response:
    _check_partitioned(call)
    stats = call.cluster.partitioned_stats(call.topic_name())
    by_name = call.topics() if call.flag("perPartition", default=True) else []
    partitions = {str(topic.name): _stats_with_owner(call, topic) for topic in by_name}
    return json_response({**stats, "partitions": partitions})


def _get_partitioned_internal_stats(call: WebCall) -> Response:
    _check_partitioned(call)
    topics = call.topics()
    return json_response(
        {
            "metadata": {"partitions": len(topics), "deleted": False},
            "partitions": {str(topic.name): internal_stats(topic) for topic in topics},
        }
    )


def _terminate_partitioned(call: WebCall) -> Response:
    if not call.partition_count():
        call.topic()
        raise HttpRefusal(
            405,
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, "
            "please use terminate commands",
        )
    return json_response({str(index): _message_id_json(topic.terminate()) for index, topic in enumerate(call.topics())})


_TOPIC_PATH = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
TOPIC_ROUTES: Final = (
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}", _list_topics),
    Route("GET", "/admin/v2/namespaces/{tenant}/{namespace}/topics", _list_topics),
    Route("PUT", _TOPIC_PATH, _create_topic),
    Route("DELETE", _TOPIC_PATH, _delete_topic),
    Route("GET", f"{_TOPIC_PATH}/properties", _get_properties),
    Route("GET", f"{_TOPIC_PATH}/stats", _get_topic_stats),
    Route("GET", f"{_TOPIC_PATH}/internalStats", _get_topic_internal_stats),
    Route("GET", f"{_TOPIC_PATH}/lastMessageId", _get_last_message_id),
    Route("PUT", f"{_TOPIC_PATH}/unload", _unload_topic),
    Route("POST", f"{_TOPIC_PATH}/terminate", _terminate_topic),
    Route("GET", f"{_TOPIC_PATH}/deduplicationEnabled", _get_deduplication),
    Route("POST", f"{_TOPIC_PATH}/deduplicationEnabled", _set_deduplication),
    Route("DELETE", f"{_TOPIC_PATH}/deduplicationEnabled", _unset_deduplication),
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}/partitioned", _list_partitioned),
    Route("PUT", f"{_TOPIC_PATH}/partitions", _create_partitioned),
    Route("POST", f"{_TOPIC_PATH}/partitions", _grow_partitioned),
    Route("DELETE", f"{_TOPIC_PATH}/partitions", _delete_partitioned),
    Route("GET", f"{_TOPIC_PATH}/partitioned-stats", _get_partitioned_stats),
    Route("GET", f"{_TOPIC_PATH}/partitioned-internalStats", _get_partitioned_internal_stats),
    Route("POST", f"{_TOPIC_PATH}/terminate/partitions", _terminate_partitioned),
)
