"""Partitioned topics: a number of partitions under one name, made, grown, looked into and deleted together."""

from typing import Final

from pulsar_actors.broker.web.bodies import MOST_PARTITIONS, as_number, as_object
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.broker.web.topics import described, message_id, refuse_existing, refuse_in_use

__all__ = ["PARTITION_ROUTES"]


def _list_partitioned(call: Call) -> Response:
    start = f"{call.parts['domain']}://"
    return as_json(sorted(name for name in call.namespace().partitioned if name.startswith(start)))


def _create(call: Call) -> Response:
    name = call.topic_name()
    call.namespace()
    if name.partition_index >= 0:
        raise HttpRefusal(412, "Partitioned Topic Name should not contain '-partition-'")
    count = _wanted(call)
    if count <= 0:
        raise HttpRefusal(406, "Number of partitions should be more than 0")
    refuse_existing(call)
    call.cluster.create_partitioned(name, count)
    return DONE


def _wanted(call: Call) -> int:
    """Read how many partitions there are to be: the number alone, or in an object that may say more."""
    value = call.value()
    number = (
        value if isinstance(value, int) else as_object(value, "what is not a number of partitions").get("partitions")
    )
    count = as_number(number, "the number of partitions")
    if count > MOST_PARTITIONS:
        raise HttpRefusal(406, f"Number of partitions should be less than or equal to {MOST_PARTITIONS}")
    return count


def _grow(call: Call) -> Response:
    name = call.topic_name()
    wanted = _wanted(call)
    count = call.partition_count()
    if not count:
        raise HttpRefusal(409, f"Topic {name} is not the partitioned topic.")
    if wanted <= 0:
        raise HttpRefusal(422, "Number of partitions should be more than 0")
    if wanted < count:
        raise HttpRefusal(422, f"Desired partitions {wanted} can't be less than the current partitions {count}.")
    if wanted > count:
        call.cluster.grow(name, wanted)
    return DONE


def _delete(call: Call) -> Response:
    name = call.topic_name()
    if not call.partition_count():
        if call.cluster.find_topic(name) is None:
            raise HttpRefusal(404, f"Topic {name} not found.")
        raise HttpRefusal(
            409,
            f"{name} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.",
        )
    refuse_in_use(call, call.topics())
    call.cluster.delete_partitioned(name, force=True)
    return DONE


def _check_partitioned(call: Call) -> None:
    if not call.partition_count():
        raise HttpRefusal(404, f"Partitioned Topic {call.topic_name()} not found")


def _tell_stats(call: Call) -> Response:
    _check_partitioned(call)
    stats = call.cluster.partitioned_stats(call.topic_name())
    by_name = call.topics() if call.flag("perPartition", default=True) else []
    partitions = {str(topic.name): described(call, topic) for topic in by_name}
    return as_json({**stats, "partitions": partitions})


def _tell_internal_stats(call: Call) -> Response:
    _check_partitioned(call)
    topics = call.topics()
    return as_json(
        {
            "metadata": {"partitions": len(topics), "deleted": False},
            "partitions": {str(topic.name): topic.internal_stats() for topic in topics},
        }
    )


def _terminate(call: Call) -> Response:
    if not call.partition_count():
        call.topic()
        raise HttpRefusal(
            405,
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, "
            "please use terminate commands",
        )
    return as_json({str(index): message_id(topic.terminate()) for index, topic in enumerate(call.topics())})


_TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
PARTITION_ROUTES: Final = (
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}/partitioned", _list_partitioned),
    Route("PUT", f"{_TOPIC}/partitions", _create),
    Route("POST", f"{_TOPIC}/partitions", _grow),
    Route("DELETE", f"{_TOPIC}/partitions", _delete),
    Route("GET", f"{_TOPIC}/partitioned-stats", _tell_stats),
    Route("GET", f"{_TOPIC}/partitioned-internalStats", _tell_internal_stats),
    Route("POST", f"{_TOPIC}/terminate/partitions", _terminate),
)
