"""Subscriptions: made before anybody consumes, moved about, emptied, deleted.

On a partitioned topic most of this is done on each partition. What needs one certain entry is not, for an entry is in
one partition alone.
"""

from typing import Final

from pulsar_actors.broker.model.position import EARLIEST, LATEST, Position
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.bodies import as_object, as_strings
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import DONE, Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["SUBSCRIPTION_ROUTES"]

_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_MOST = 2**63 - 1


def _list_subscriptions(call: Call) -> Response:
    names = {name: None for topic in call.topics() for name in topic.subscriptions}
    return as_json(list(names))


def _create(call: Call) -> Response:
    """Make one where the body says, or at the end; the topic is made with it if there is none."""
    name = call.topic_name()
    at, properties = _beginning(call.value())
    if not name.is_persistent:
        raise HttpRefusal(400, "Create subscription on non-persistent topic can only be done through client")
    if call.partition_count() == 0:
        call.cluster.open_topic(name)
    subscription = call.parts["subscription"]
    topics = [topic for topic in call.topics() if subscription not in topic.subscriptions]
    if not topics:
        raise HttpRefusal(409, "Subscription already exists for topic")
    for topic in topics:
        topic.create_subscription(subscription, at=at, properties=properties)
    return DONE


def _beginning(value: object) -> tuple[Position, dict[str, str]]:
    """Read where a subscription shall begin, and what it shall have as properties."""
    if value is None:
        return LATEST, {}
    if isinstance(value, str):
        if value not in _ENDS:
            raise HttpRefusal(400, f"Invalid value {excerpt(value)} for the position. Allowed values are {list(_ENDS)}")
        return _ENDS[value], {}
    properties = as_object(value, "where it begins").get("properties")
    return _position(value), as_strings(properties, "the value of its properties")


def _position(value: object) -> Position:
    """Read a message id."""
    given = as_object(value, "a message id")
    ledger, entry = given.get("ledgerId"), given.get("entryId")
    if not (type(ledger) is int and type(entry) is int and -1 <= ledger <= _MOST and -1 <= entry <= _MOST):
        raise HttpRefusal(400, f"ledgerId and entryId are whole numbers from -1 on, not {excerpt((ledger, entry))}")
    return Position(ledger, entry + 1 if given.get("excluded") else entry)


def _delete(call: Call) -> Response:
    found = _found(call)
    if not call.flag("force") and any(subscription.consumers for _, subscription in found):
        raise HttpRefusal(412, "Subscription has active connected consumers")
    for topic, subscription in found:
        topic.delete_subscription(subscription.name, force=True)
    return DONE


def _found(call: Call) -> list[tuple[Topic, Subscription]]:
    """Find the subscription, in each partition that has it."""
    name = call.parts["subscription"]
    topics = call.topics()
    found = [(topic, topic.subscriptions[name]) for topic in topics if name in topic.subscriptions]
    if not found:
        raise HttpRefusal(404, f"Subscription {name} not found for topic {call.topic_name()}")
    return found


def _refuse_non_persistent(call: Call, what: str) -> None:
    """Refuse what only makes sense where messages are kept."""
    if call.parts["domain"] != "persistent":
        raise HttpRefusal(405, f"{what} on a non-persistent topic is not allowed")


def _skip(call: Call) -> Response:
    if call.partition_count():
        raise HttpRefusal(405, "Skip messages on a partitioned topic is not allowed")
    _refuse_non_persistent(call, "Skip messages")
    count = call.number("number")
    for _, subscription in _found(call):
        subscription.skip(max(0, count))
    return DONE


def _skip_all(call: Call) -> Response:
    _refuse_non_persistent(call, "Skip messages")
    for _, subscription in _found(call):
        subscription.skip()
    return DONE


def _reset_to_time(call: Call) -> Response:
    timestamp = call.number("timestamp")
    for _, subscription in _found(call):
        subscription.reset_to_time(timestamp)
    return DONE


def _reset(call: Call) -> Response:
    """Move it to a message, which will be the next one, or the one before the next one."""
    if call.partition_count():
        raise HttpRefusal(405, "Reset-cursor at position is not allowed for partitioned-topic")
    position = _position(call.value())
    for _, subscription in _found(call):
        subscription.reset(position)
    return DONE


def _expire(call: Call) -> Response:
    _refuse_non_persistent(call, "Expire messages")
    seconds = call.number("seconds")
    for _, subscription in _found(call):
        subscription.expire(seconds)
    return DONE


def _expire_all(call: Call) -> Response:
    _refuse_non_persistent(call, "Expire messages")
    seconds = call.number("seconds")
    for topic in call.topics():
        for subscription in topic.subscriptions.values():
            subscription.expire(seconds)
    return DONE


_TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscription/{{subscription}}"
SUBSCRIPTION_ROUTES: Final = (
    Route("GET", f"{_TOPIC}/subscriptions", _list_subscriptions),
    Route("PUT", _SUBSCRIPTION, _create),
    Route("DELETE", _SUBSCRIPTION, _delete),
    Route("POST", f"{_SUBSCRIPTION}/skip/{{number}}", _skip),
    Route("POST", f"{_SUBSCRIPTION}/skip_all", _skip_all),
    Route("POST", f"{_SUBSCRIPTION}/resetcursor/{{timestamp}}", _reset_to_time),
    Route("POST", f"{_SUBSCRIPTION}/resetcursor", _reset),
    Route("POST", f"{_SUBSCRIPTION}/expireMessages/{{seconds}}", _expire),
    Route("POST", f"{_TOPIC}/all_subscription/expireMessages/{{seconds}}", _expire_all),
)
