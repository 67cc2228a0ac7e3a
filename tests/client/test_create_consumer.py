import re

import pytest

from pulsar_actors.client.consumer_options import ReaderOptions
from pulsar_actors.client.create_consumer import consumer_options_of_reader, start_of_reader
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import StringSchema


def test_a_reader_is_an_exclusive_consumer_with_the_readers_options() -> None:
    schema = StringSchema()
    options = ReaderOptions(
        "t", MessageId.earliest, schema, None, 7, "a name", is_read_compacted=True, start_message_id_inclusive=True
    )
    consumer = consumer_options_of_reader(options)
    assert (consumer.topics, consumer.consumer_type) == (("t",), ConsumerType.Exclusive)
    assert (consumer.schema, consumer.receiver_queue_size, consumer.consumer_name) == (schema, 7, "a name")
    assert consumer.is_read_compacted
    assert consumer.start_message_id_inclusive


@pytest.mark.parametrize(("prefix", "before"), [(None, ""), ("", ""), ("role", "role-")])
def test_its_subscription_has_a_name_that_no_other_has(prefix: str | None, before: str) -> None:
    options = ReaderOptions("t", MessageId.earliest, subscription_role_prefix=prefix)
    names = {consumer_options_of_reader(options).subscription_name for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(before + "reader-[0-9a-f]{10}", name) for name in names)


@pytest.mark.parametrize(
    ("message_id", "inclusive", "is_last"),
    [
        (MessageId.latest, True, True),
        (MessageId.latest, False, False),
        (MessageId.earliest, True, False),
        (MessageId(-1, 1, 2, -1), True, False),
    ],
)
def test_it_starts_where_it_was_told(message_id: MessageId, inclusive: bool, is_last: bool) -> None:  # noqa: FBT001 - a table of cases
    start = start_of_reader(ReaderOptions("t", message_id, start_message_id_inclusive=inclusive))
    assert (start.message_id, start.inclusive, start.is_last) == (message_id.wire, inclusive, is_last)
