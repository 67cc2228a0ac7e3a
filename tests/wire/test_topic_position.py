"""Positions in a topic: their order, their text, and the message ids they are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

numbers = st.integers(0, 2**40)
positions = st.builds(TopicPosition, numbers, numbers, st.integers(0, 1000))


@given(positions, st.integers(-1, 100))
def test_what_is_written_is_read_again(position: TopicPosition, partition: int) -> None:
    assert TopicPosition.parse(position.text(partition)) == position


@given(positions)
def test_a_message_id_is_the_position_of_its_message(position: TopicPosition) -> None:
    assert TopicPosition.deserialize(position.message_id.serialize()) == position


@given(numbers, numbers)
def test_the_position_behind_a_message_comes_after_every_message_of_its_entry(ledger: int, entry: int) -> None:
    last = TopicPosition.of(MessageId(ledger, entry, batch_index=2**31 - 1))
    assert last < TopicPosition.after(MessageId(ledger, entry)) <= TopicPosition.of(MessageId(ledger, entry + 1))


def test_nothing_is_before_the_earliest_and_it_is_behind_no_message() -> None:
    assert TopicPosition.after(MessageId(-1, -1)) == TOPIC_START == TopicPosition.parse(" Earliest ")
    assert TopicPosition(0, 0) > TOPIC_START
    assert TOPIC_START.text(3) == "earliest"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("12:5", TopicPosition(12, 5)),
        ("12:5:-1", TopicPosition(12, 5)),
        ("12:5:3", TopicPosition(12, 5)),
        ("12:5:-1:7", TopicPosition(12, 5, 7)),
        ("(12,5,-1,7)", TopicPosition(12, 5, 7)),
        ("(12,5,0,-1)", TopicPosition(12, 5)),
    ],
)
def test_what_clients_print_of_message_ids_is_read(text: str, position: TopicPosition) -> None:
    assert TopicPosition.parse(text) == position


@pytest.mark.parametrize("text", ["", "12", "12:", "a:b", "12:5:1:2:3", "-1:-1", "latest", "12:5 x"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="a position is ledger:entry"):
        TopicPosition.parse(text)


@pytest.mark.parametrize("text", [f"{2**63}:1", f"1:{2**63}", f"1:1:-1:{2**31}"])
def test_a_position_that_no_message_id_can_have_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no message has the position '{text}'"):
        TopicPosition.parse(text)
