import base64
import zlib
from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import ZLIB, EncryptionKeys, KeyValue

TOPIC = "/admin/v2/persistent/public/default/t"


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
        "publish-time": "2023-11-14T22:30:00.000Z",
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


def test_a_payload_is_inflated(web: Any) -> None:
    body, headers = shown(web, zlib.compress(b"z" * 99), compression=ZLIB, uncompressed_size=99)
    assert body == b"z" * 99
    assert (headers["compression"], headers["uncompressed-size"]) == ("ZLIB", "99")


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


def test_a_batch_is_shown_whole(web: Any) -> None:
    body, headers = shown(web, b"two in one", num_messages_in_batch=2)
    assert body == b"two in one"
    assert headers["num-batch-message"] == "2"


@pytest.mark.parametrize("number", [0, -1])
def test_messages_are_counted_from_one(web: Any, number: int) -> None:
    web.publish("t", b"x")
    web.ask("PUT", f"{TOPIC}/subscription/s", "earliest")
    assert web.refusal("GET", f"{TOPIC}/subscription/s/position/{number}")[0] == 400
