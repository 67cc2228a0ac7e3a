import base64
from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import ZLIB, EncryptionKeys, KeyValue

TOPIC = "/admin/v2/persistent/public/default/t"
PARTITIONED = "/admin/v2/persistent/public/default/p"


def first_of(web: Any, subscription: str) -> bytes | None:
    """The first message that it has not acknowledged."""
    answer = web.ask("GET", f"{TOPIC}/subscription/{subscription}/position/1")
    return answer.body if answer.status == 200 else None


@pytest.fixture
def ids(web: Any) -> list[dict[str, int]]:
    """Four messages and a subscription to all of them."""
    web.ask("PUT", f"{TOPIC}/subscription/s")
    positions = [web.publish("t", b"%d" % number) for number in range(4)]
    return [{"ledgerId": position.ledger_id, "entryId": position.entry_id} for position in positions]


def test_a_subscription_begins_at_a_message_or_after_it(web: Any, ids: list[dict[str, int]]) -> None:
    web.ask("PUT", f"{TOPIC}/subscription/at", {**ids[2], "properties": {"a": "b"}})
    web.ask("PUT", f"{TOPIC}/subscription/after", {**ids[2], "excluded": True})
    assert (first_of(web, "at"), first_of(web, "after")) == (b"2", b"3")
    assert web.cluster.find_topic(web.name("t")).subscriptions["at"].properties == {"a": "b"}


@pytest.mark.parametrize(
    "body",
    [
        *("middle", 3, [], {}, {"ledgerId": 1}),
        *({"ledgerId": ledger, "entryId": 1} for ledger in ("1", True, -2, 2**63)),
        {"ledgerId": 1, "entryId": 1.0},
        {"ledgerId": 1, "entryId": 0, "properties": {"a": 1}},
    ],
)
def test_a_subscription_does_not_begin_where_no_message_can_be(web: Any, ids: object, body: object) -> None:
    assert web.refusal("PUT", f"{TOPIC}/subscription/new", body)[0] == 400
    assert web.told("GET", f"{TOPIC}/subscriptions") == ["s"]


@pytest.mark.parametrize("path", ["subscription/s/expireMessages", "all_subscription/expireMessages"])
def test_messages_expire_by_their_age(web: Any, ids: object, path: str) -> None:
    web.loop.advance(100)
    web.publish("t", b"new")
    web.ask("POST", f"{TOPIC}/{path}/50")
    assert first_of(web, "s") == b"new"
    assert web.ask("POST", f"{TOPIC}/subscription/s/resetcursor/0").status == 204
    assert first_of(web, "s") == b"0"


@pytest.mark.parametrize("number", ["x", "1.5", "", "9" * 19, "9" * 5000, "\u0663", "--1"])
def test_a_path_with_no_number_where_one_belongs_is_nobodys(web: Any, ids: object, number: str) -> None:
    assert web.ask("POST", f"{TOPIC}/subscription/s/skip/{number}").status == 404
    assert web.ask("POST", f"{TOPIC}/subscription/s/skip/-3").status == 204  # none
    assert first_of(web, "s") == b"0"


def test_a_subscription_of_a_partitioned_topic_is_that_of_each_partition(web: Any) -> None:
    web.ask("PUT", f"{PARTITIONED}/partitions", 2)
    assert web.ask("PUT", f"{PARTITIONED}-partition-0/subscription/s").status == 204
    assert web.ask("PUT", f"{PARTITIONED}/subscription/s").status == 204
    assert web.refusal("PUT", f"{PARTITIONED}/subscription/s")[0] == 409
    assert web.told("GET", f"{PARTITIONED}/subscriptions") == ["s"]
    assert web.told("GET", f"{PARTITIONED}-partition-1/subscriptions") == ["s"]
    assert web.refusal("POST", f"{PARTITIONED}/subscription/s/resetcursor", {"ledgerId": 1, "entryId": 1})[0] == 405
    assert web.ask("DELETE", f"{PARTITIONED}-partition-1/subscription/s").status == 204
    assert web.ask("DELETE", f"{PARTITIONED}/subscription/s").status == 204
    assert web.told("GET", f"{PARTITIONED}/subscriptions") == []


@pytest.mark.parametrize("what", ["skip/1", "skip_all", "expireMessages/1"])
def test_nothing_that_was_kept_is_skipped_where_nothing_is_kept(web: Any, what: str) -> None:
    topic = TOPIC.replace("/persistent", "/non-persistent")
    web.ask("PUT", topic)
    assert web.refusal("POST", f"{topic}/subscription/s/{what}")[0] == 405
    assert web.refusal("POST", f"{topic}/all_subscription/expireMessages/1")[0] == 405


def shown(web: Any, payload: bytes, **fields: Any) -> tuple[bytes, dict[str, str]]:
    position = web.publish("t", payload, **fields)
    answer = web.ask("GET", f"{TOPIC}/ledger/{position.ledger_id}/entry/{position.entry_id}")
    assert answer.status == 200, answer
    return answer.body, {name.removeprefix("X-Pulsar-"): value for name, value in answer.headers}


def test_a_message_is_its_payload_and_headers_for_the_rest(web: Any) -> None:
    body, headers = shown(
        web,
        b"hello",
        properties=[KeyValue(key="a", value="b")],
        partition_key="k",
        ordering_key=b"\xff\x00",
        event_time=123,
        deliver_at_time=4_000_000_000_007,
        schema_version=bytes(8),
    )
    assert body == b"hello"
    assert headers.pop("Message-ID").endswith(":0")
    assert headers == {
        "PROPERTY": '{"a":"b"}',
        "publish-time": "1970-01-01T00:16:40.000Z",
        "event-time": "1970-01-01T00:00:00.123Z",
        "deliver-at-time": "2096-10-02T07:06:40.007Z",
        "partition-key": "k",
        "Base64-ordering-key": base64.b64encode(b"\xff\x00").decode(),
        "Base64-schema-version": "AAAAAAAAAAA=",
        "Is-Encrypted": "false",
        "producer-name": "p",
        "sequence-id": "0",
        "txn-uncommitted": "false",
    }


def test_a_payload_that_is_encrypted_stays_as_it_is(web: Any) -> None:
    keys = [EncryptionKeys(key="k", value=b"v")]
    body, headers = shown(web, b"secret", compression=ZLIB, uncompressed_size=99, encryption_keys=keys)
    assert body == b"secret"
    assert headers["Is-Encrypted"] == "true"


def test_a_payload_that_cannot_be_inflated_is_no_mystery(web: Any) -> None:
    position = web.publish("t", b"junk", compression=ZLIB, uncompressed_size=99)
    path = f"{TOPIC}/ledger/{position.ledger_id}/entry/{position.entry_id}"
    status, reason = web.refusal("GET", path)
    assert status == 500
    assert "cannot be read" in reason


def test_a_time_that_no_calendar_reaches_is_a_number(web: Any) -> None:
    _, headers = shown(web, b"x", event_time=2**62)
    assert headers["event-time"] == str(2**62)


@pytest.mark.parametrize("number", [0, -1])
def test_messages_are_counted_from_one(web: Any, number: int) -> None:
    web.publish("t", b"x")
    web.ask("PUT", f"{TOPIC}/subscription/s", "earliest")
    assert web.refusal("GET", f"{TOPIC}/subscription/s/position/{number}")[0] == 400
