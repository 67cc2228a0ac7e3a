"""Messages in chunks that come mixed, late or never: what a consumer makes of them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.real_broker.exchange import acknowledged_all, contents, nothing_comes, receive, until
from tests.support.admin import Admin
from tests.support.raw_producer import RawProducer
from tests.support.subjects import Broker


@pytest.fixture
def sender(broker: Broker, topic: str, admin: Admin) -> Iterator[RawProducer]:
    admin.create(topic)
    with RawProducer(broker.service_url, topic) as sender:
        yield sender


@pytest.fixture
def backlog(admin: Admin, topic: str) -> Callable[[], int]:
    """How many chunks are not acknowledged."""
    return lambda: int(admin.stats(topic)["subscriptions"]["s"]["msgBacklog"])


@pytest.mark.shows("Message metadata", "uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size")
def test_chunks_that_come_mixed_are_put_together_and_acknowledged_each(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(topic, "s", max_pending_chunked_message=3)
    for name in "abc":
        sender.first(name)
    for name in "bca":
        sender.second(name)
    messages = receive(consumer, 3)
    assert contents(messages) == [b"bB", b"cC", b"aA"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)


def test_the_oldest_is_acknowledged_unread_where_too_many_are_unfinished_and_it_may_be(
    pulsar: Any, client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(
        topic, "s", max_pending_chunked_message=2, auto_ack_oldest_chunked_message_on_queue_full=True
    )
    for name in "abc":
        sender.first(name)
    for name in "bc":
        sender.second(name)
    messages = receive(consumer, 2)
    assert contents(messages) == [b"bB", b"cC"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)
    consumer.close()
    assert nothing_comes(pulsar, client.subscribe(topic, "s"))


def test_nothing_is_lost_where_too_many_are_unfinished_and_none_may_be(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    """The official client lets go of the oldest until somebody asks for it again; ours, of the newest, for a while."""
    consumer = client.subscribe(topic, "s", max_pending_chunked_message=2)
    for name in "abc":
        sender.first(name)
    for name in "bca":
        sender.second(name)
    messages = receive(consumer, 2)
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 2)
    consumer.redeliver_unacknowledged_messages()
    messages += receive(consumer, 1)
    assert sorted(contents(messages)) == [b"aA", b"bB", b"cC"]
    acknowledged_all(consumer, messages[2:])
    until(lambda: backlog() == 0)


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one takes no other time than a minute
def test_what_is_unfinished_for_too_long_is_acknowledged_unread(
    client: Any, topic: str, sender: RawProducer, backlog: Any
) -> None:
    consumer = client.subscribe(topic, "s", expire_time_of_incomplete_chunked_message_ms=200)
    sender.first("a")
    until(lambda: backlog() == 0)
    sender.first("b")
    sender.second("b")
    messages = receive(consumer, 1)
    assert contents(messages) == [b"bB"]
    acknowledged_all(consumer, messages)
    until(lambda: backlog() == 0)
