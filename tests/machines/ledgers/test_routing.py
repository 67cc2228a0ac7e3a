from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.hashing import HASHES, HashingScheme
from pulsar_actors.machines.ledgers.routing import CustomRouting, RoundRobin, SinglePartition

BOOST = HASHES[HashingScheme.BOOST]
LIMITS = BatchLimits(messages=3, size=100, delay=1.0)


@given(st.text(max_size=5), st.integers(1, 20), st.integers(1, 20))
def test_a_key_decides_in_every_mode_and_follows_growth(key: str, partitions: int, more: int) -> None:
    for router in (SinglePartition(BOOST, lambda: 0.5), RoundRobin(BOOST, lambda: 0.5, LIMITS)):
        for count in (partitions, partitions + more):
            assert router.route(key, 1, count, 0.0) == BOOST(key) % count


def test_a_single_partition_is_chosen_by_chance_and_kept_while_the_topic_grows() -> None:
    router = SinglePartition(BOOST, lambda: 0.99)
    assert [router.route(None, 1, partitions, 0.0) for partitions in (4, 4, 8)] == [3, 3, 3]


def test_without_batching_each_message_goes_one_further() -> None:
    router = RoundRobin(BOOST, lambda: 0.5, None)
    assert [router.route(None, 1, 4, 0.0) for _ in range(6)] == [2, 3, 0, 1, 2, 3]


def test_round_robin_moves_on_when_the_batch_has_its_messages() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 1, 2, 0.0) for _ in range(8)] == [0, 0, 0, 1, 1, 1, 0, 0]


def test_round_robin_moves_on_when_the_next_message_would_pass_the_byte_limit() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 60, 3, 0.0) for _ in range(3)] == [0, 1, 2]
    assert router.route(None, 40, 3, 0.0) == 2


def test_round_robin_moves_on_when_the_delay_is_over() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 1, 3, now) for now in (5.0, 5.9, 6.0, 6.9, 7.0)] == [0, 0, 1, 1, 2]


def test_messages_with_a_key_do_not_move_the_round() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, None)
    assert [router.route(key, 1, 3, 0.0) for key in (None, "k", None)] == [0, BOOST("k") % 3, 1]


def test_new_partitions_join_the_round() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, None)
    assert [router.route(None, 1, 2, 0.0) for _ in range(2)] == [0, 1]
    assert [router.route(None, 1, 4, 0.0) for _ in range(4)] == [2, 3, 0, 1]


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_whole_rounds_load_every_partition_alike(partitions: int, rounds: int, chance: float) -> None:
    router = RoundRobin(BOOST, lambda: chance, LIMITS)
    counts = Counter(router.route(None, 1, partitions, 0.0) for _ in range(3 * partitions * rounds))
    assert counts == dict.fromkeys(range(partitions), 3 * rounds)


def test_a_routers_own_choice_is_taken() -> None:
    router = CustomRouting[str](lambda message, partitions: len(message) % partitions)
    assert router.route("four+", 4) == 1


@pytest.mark.parametrize("answer", [-1, 4, 1.0, None, "1"])
def test_a_choice_outside_the_partitions_is_refused_by_value(answer: int) -> None:
    router = CustomRouting[str](lambda _message, _partitions: answer)
    with pytest.raises(InvalidArgument, match=f"got {answer!r}"):
        router.route("m", 4)
