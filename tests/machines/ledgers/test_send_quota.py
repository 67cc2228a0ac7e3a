import pytest

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.machines.ledgers.send_quota import SendQuota, pending_limit


def test_there_is_a_place_until_what_is_taken_and_what_waits_make_up_the_limit() -> None:
    quota = SendQuota(10)
    assert [waiting for waiting in range(20) if quota.has_place(waiting)] == list(range(10))
    quota.take(7)
    assert [waiting for waiting in range(20) if quota.has_place(waiting)] == [0, 1, 2]
    quota.free(7)
    assert quota.has_place(9)


def test_a_limit_of_0_is_no_limit() -> None:
    quota = SendQuota(0)
    quota.take(10**12)
    assert quota.has_place(10**12)


def test_freeing_more_than_was_taken_is_an_error_and_changes_nothing() -> None:
    quota = SendQuota(10)
    quota.take(5)
    quota.free(3)
    with pytest.raises(InternalError, match="something ended twice"):
        quota.free(3)
    assert quota.used == 2


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="-1"):
        SendQuota(-1)


@pytest.mark.parametrize(
    ("max_pending", "across", "partitions", "limit"),
    [(1000, 50_000, 10, 1000), (1000, 50_000, 100, 500), (1000, 10, 100, 1), (0, 50_000, 10, 5000), (1000, 0, 9, 1000)],
)
def test_pending_messages_are_shared_out_between_partitions(
    max_pending: int, across: int, partitions: int, limit: int
) -> None:
    assert pending_limit(max_pending, across, partitions) == limit


def test_no_limit_at_all_stays_no_limit() -> None:
    assert pending_limit(0, 0, 5) == 0
