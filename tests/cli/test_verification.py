import pytest

from pulsar_actors.cli.verification import SMALLEST, Contents, Verification
from pulsar_actors.client.message_id import MessageId

CONTENTS = Contents(40)


def at(entry: int, index: int = -1) -> MessageId:
    return MessageId(-1, 1, entry, index)


def verified(*arrivals: tuple[int, int]) -> Verification:
    """What is thought of messages that came, each a number and the entry it was in."""
    verification = Verification(CONTENTS)
    for number, entry in arrivals:
        verification.take(CONTENTS.of(number), at(entry))
    return verification


@pytest.mark.parametrize("size", [SMALLEST, SMALLEST + 1, 100, 255, 256, 257, 5000])
def test_a_content_has_its_size_and_is_no_other_messages(size: int) -> None:
    contents = Contents(size)
    made = [contents.of(number) for number in range(600)]
    assert {len(content) for content in made} == {size}
    assert len(set(made)) == len(made)


def test_neighbours_differ_in_their_filling_too() -> None:
    assert CONTENTS.of(0)[SMALLEST:] != CONTENTS.of(1)[SMALLEST:]


def test_messages_that_come_in_order_are_counted_and_nothing_is_wrong() -> None:
    result = verified((0, 0), (1, 1), (2, 2))
    assert (result.due, result.delivered_again, result.stored_again, result.fault) == (3, 0, 0, None)


def test_the_messages_of_a_batch_are_in_order_by_their_place_in_it() -> None:
    verification = Verification(CONTENTS)
    for number in range(3):
        verification.take(CONTENTS.of(number), at(0, number))
    verification.take(CONTENTS.of(1), at(0, 1))
    assert (verification.due, verification.delivered_again, verification.stored_again) == (3, 1, 0)


def test_a_message_that_comes_again_under_its_id_was_delivered_again_and_counts_once() -> None:
    result = verified((0, 0), (1, 1), (0, 0), (1, 1), (2, 2))
    assert (result.due, result.delivered_again, result.stored_again, result.fault) == (3, 2, 0, None)


def test_a_message_that_comes_again_under_a_new_id_was_stored_again_and_counts_once() -> None:
    result = verified((0, 0), (1, 1), (0, 2), (1, 3), (2, 4))
    assert (result.due, result.delivered_again, result.stored_again, result.fault) == (3, 0, 2, None)


def test_what_was_stored_again_can_be_delivered_again_as_well() -> None:
    result = verified((0, 0), (0, 1), (0, 0), (0, 1), (1, 2))
    assert (result.due, result.delivered_again, result.stored_again, result.fault) == (2, 2, 1, None)


def test_a_message_that_is_missing_is_a_fault_which_names_it() -> None:
    assert verified((0, 0), (1, 1), (3, 3)).fault == "message 3 came when 2 was due: those between are lost or late"


def test_two_messages_in_the_wrong_order_are_a_fault() -> None:
    assert verified((0, 0), (2, 1), (1, 2)).fault == "message 2 came when 1 was due: those between are lost or late"


@pytest.mark.parametrize(
    "damaged",
    [
        CONTENTS.of(0)[:-1],
        CONTENTS.of(0) + b"!",
        CONTENTS.of(0)[:-1] + b"!",
        b"!" + CONTENTS.of(0)[1:],
        b"",
    ],
    ids=["shorter", "longer", "another last byte", "another first byte", "empty"],
)
def test_a_message_that_is_not_what_was_sent_is_a_fault(damaged: bytes) -> None:
    verification = Verification(CONTENTS)
    verification.take(damaged, at(5))
    assert verification.fault is not None
    assert verification.fault.startswith(f"message (1,5,-1,-1) is not what was sent: {len(damaged)} bytes")
    assert verification.due == 0


def test_the_first_fault_stays() -> None:
    assert verified((1, 0), (5, 1)).fault == "message 1 came when 0 was due: those between are lost or late"
