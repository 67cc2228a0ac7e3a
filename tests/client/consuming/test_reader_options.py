import pickle
from typing import Any

import pytest

from pulsar_actors.client.consuming.reader_options import ReaderOptions
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidTopicName, OperationNotSupported

WRONG: list[tuple[str, Any]] = [
    *(("topic", None), ("topic", []), ("start_message_id", 5), ("start_message_id", "earliest"), ("schema", None)),
    *(("reader_listener", 5), ("receiver_queue_size", -1), ("reader_name", 5), ("subscription_role_prefix", b"a")),
    *(("is_read_compacted", 1), ("start_message_id_inclusive", None), ("crypto_failure_action", 0)),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} takes "):
        ReaderOptions(**{"topic": "t", "start_message_id": MessageId.earliest, name: value})


def test_a_wrong_topic_is_refused_as_that() -> None:
    with pytest.raises(InvalidTopicName):
        ReaderOptions("a/b", MessageId.latest)


def test_encryption_is_refused_for_now() -> None:
    with pytest.raises(OperationNotSupported, match="crypto_key_reader"):
        ReaderOptions("t", MessageId.latest, crypto_key_reader=object())


def test_a_topic_that_is_never_compacted_has_no_compacted_view() -> None:
    with pytest.raises(InvalidConfiguration):
        ReaderOptions("non-persistent://a/b/c", MessageId.latest, is_read_compacted=True)


def test_options_can_be_pickled_but_not_be_changed() -> None:
    options = ReaderOptions("t", MessageId(1, 2, 3, 4), is_read_compacted=True, reader_name="")
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.start_message_id, twin.is_read_compacted, twin.reader_name) == (MessageId(1, 2, 3, 4), True, None)
    with pytest.raises(AttributeError):
        options.topic = "another"  # type: ignore[misc]
