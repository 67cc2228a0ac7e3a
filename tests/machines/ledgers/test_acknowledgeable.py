import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.acknowledgeable import fault
from pulsar_actors.wire.message_id import MessageId

LARGEST = 873_813


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (MessageId(1, 1, -1, 0, 0), "not 0"),
        (MessageId(1, 1, -1, 4, 4), "not 4"),
        (MessageId(1, 1, -1, -7, 4), "batch_index"),
        (MessageId(1, 1, -1, 0, 2**31 - 1), "at most 873,813, not 2,147,483,647"),
        (MessageId(1, 1, -1, 0, 2**40), "at most 873,813, not 1,099,511,627,776"),
        (MessageId(2**63, 0), "(9223372036854775808,0,-1,-1) is no message: the ids"),
        (MessageId(1, 2**63), "the ids"),
        (MessageId(-1, 0), "the ids"),
        (MessageId(0, -1), "the ids"),
        (MessageId(1, 5, first_chunk=MessageId(1, -1)), "the ids"),
    ],
)
def test_what_no_message_can_be_is_named_with_what_is_wrong(wrong: MessageId, why: str) -> None:
    error = fault(wrong, LARGEST)
    assert isinstance(error, InvalidArgument)
    assert why in str(error)


@pytest.mark.parametrize(
    "right",
    [
        MessageId(0, 0),
        MessageId(2**63 - 1, 2**63 - 1),
        MessageId(1, 1, -1, LARGEST - 1, LARGEST),
        MessageId(1, 5, first_chunk=MessageId(1, 0)),
    ],
)
def test_what_may_be_a_message_has_no_fault(right: MessageId) -> None:
    assert fault(right, LARGEST) is None
