from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_actors.wire.fast_encode import encode_single_message
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue, SingleMessageMetadata

text = st.text(max_size=300)
number = st.none() | st.integers(0, 2**63 - 1)


@given(
    size=st.integers(0, 2**31 - 1),
    properties=st.dictionaries(text, text, max_size=3),
    key=st.none() | text,
    ordering_key=st.none() | st.binary(max_size=300),
    sequence_id=number,
    event_time=number,
    null_value=st.booleans(),
    key_is_base64=st.booleans(),
)
@example(
    size=1,
    properties={"long": 128 * "é"},
    key=None,
    ordering_key=None,
    sequence_id=None,
    event_time=None,
    null_value=False,
    key_is_base64=False,
)
def test_what_is_written_by_hand_is_what_protobuf_writes(  # noqa: PLR0913 - the fields of a message
    *,
    size: int,
    properties: dict[str, str],
    key: str | None,
    ordering_key: bytes | None,
    sequence_id: int | None,
    event_time: int | None,
    null_value: bool,
    key_is_base64: bool,
) -> None:
    said: dict[str, Any] = {
        "partition_key": key,
        "ordering_key": ordering_key,
        "sequence_id": sequence_id,
        "event_time": event_time,
        "null_value": null_value or None,
        "partition_key_b64_encoded": key_is_base64 or None,
    }
    pairs = [KeyValue(key=key, value=value) for key, value in properties.items()]
    metadata = SingleMessageMetadata(payload_size=size, properties=pairs, **said)
    flags = {"null_value": null_value, "key_is_base64": key_is_base64}
    by_hand = encode_single_message(size, properties, key, ordering_key, sequence_id, event_time, **flags)
    assert by_hand == metadata.SerializeToString()
