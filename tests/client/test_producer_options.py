import pickle
from typing import Any

import pytest

from pulsar_actors.client.enums import CompressionType, PartitionsRoutingMode
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.schema import StringSchema
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidTopicName


def test_the_defaults_are_right_and_properties_are_never_none() -> None:
    assert ProducerOptions("t").properties == {}


@pytest.mark.parametrize("fitting", [0, 5, 2**63 - 1])
def test_an_initial_sequence_id_of_0_counts(fitting: int) -> None:
    assert ProducerOptions("t", initial_sequence_id=fitting).initial_sequence_id == fitting


def test_what_last_sequence_id_says_of_a_new_producer_is_no_initial_sequence_id() -> None:
    assert ProducerOptions("t", initial_sequence_id=-1).initial_sequence_id is None


WRONG: list[tuple[str, Any]] = [
    *((name, -1) for name in ("send_timeout_millis", "max_pending_messages", "batching_max_publish_delay_ms")),
    *((name, 0) for name in ("batching_max_messages", "batching_max_allowed_size_in_bytes")),
    *(("schema", StringSchema), ("initial_sequence_id", 2**63), ("max_pending_messages_across_partitions", 2**31)),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} takes "):
        ProducerOptions(**{"topic": "t", name: value})


def test_a_wrong_topic_is_refused_as_that() -> None:
    with pytest.raises(InvalidTopicName):
        ProducerOptions("a/b")


@pytest.mark.parametrize(
    "together",
    [
        {"batching_enabled": True, "chunking_enabled": True},
        {"message_routing_mode": PartitionsRoutingMode.CustomPartition},
    ],
)
def test_what_excludes_each_other_is_refused_as_a_configuration(together: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration):
        ProducerOptions("t", **together)


def test_a_router_of_ones_own_goes_with_any_mode() -> None:
    mode = PartitionsRoutingMode.CustomPartition
    assert ProducerOptions("t", message_routing_mode=mode, message_router=max).message_router is max


def test_options_can_be_pickled_but_not_be_changed() -> None:
    options = ProducerOptions("t", "p", properties={"a": "b"}, compression_type=CompressionType.ZSTD)
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.properties, twin.compression_type) == (options.properties, options.compression_type)
    with pytest.raises(AttributeError):
        options.topic = "another"  # type: ignore[misc]
