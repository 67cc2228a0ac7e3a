"""The offsets of a stream, as Spark keeps them in a checkpoint."""

from typing import Any

import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

ORDERS = TopicName.parse("persistent://public/default/orders-partition-3")
RETURNS = TopicName.parse("persistent://public/default/returns")


def test_offsets_that_are_written_are_read_again() -> None:
    offsets = Offsets("mine", {RETURNS: TOPIC_START, ORDERS: TopicPosition(12, 6, 7)})
    written = offsets.write()
    assert written == {"subscription": "mine", "positions": {str(ORDERS): "12:6:3:7", str(RETURNS): "earliest"}}
    assert list(written["positions"]) == sorted(written["positions"])
    assert Offsets.read(written) == offsets


def test_a_partition_that_offsets_do_not_name_is_at_its_start() -> None:
    assert Offsets("mine", {}).at(ORDERS) == TOPIC_START


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"subscription": "mine"},
        {"positions": {}},
        {"subscription": "mine", "positions": ["12:6"]},
        {"subscription": "mine", "positions": {str(ORDERS): 12}},
        {"subscription": "mine", "positions": {str(ORDERS): "12"}},
        {"subscription": "mine", "positions": {"memory://a/b": "12:6"}},
    ],
)
def test_an_offset_of_another_source_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="the checkpoint has an offset that is none of this source"):
        Offsets.read(offset)
