from pulsar_actors.machines.trackers.batch_sizes import MOST_KNOWN, BatchSizes


def known(sizes: BatchSizes, *entries: int) -> list[int]:
    return [sizes.of((1, entry)) for entry in entries]


def test_a_batch_is_known_until_it_is_acknowledged() -> None:
    sizes = BatchSizes()
    for entry in range(5):
        sizes.note((1, entry), 10 + entry)
    sizes.drop((1, 3))
    sizes.drop((1, 7))
    sizes.drop_up_to((1, 1))
    assert known(sizes, 0, 1, 2, 3, 4, 7) == [0, 0, 12, 0, 14, 0]
    sizes.drop_up_to((2, 0))
    assert known(sizes, 2, 4) == [0, 0]


def test_after_a_seek_none_is_known() -> None:
    sizes = BatchSizes()
    sizes.note((1, 0), 3)
    sizes.clear()
    assert known(sizes, 0) == [0]


def test_one_consumers_batches_are_not_anothers() -> None:
    BatchSizes().note((1, 0), 3)
    assert known(BatchSizes(), 0) == [0]


def test_of_batches_that_nobody_acknowledges_the_last_are_known() -> None:
    sizes = BatchSizes()
    for entry in range(10 * MOST_KNOWN):
        sizes.note((1, entry), 3)
        assert len(sizes._sizes) <= MOST_KNOWN
    last = 10 * MOST_KNOWN - 1
    assert known(sizes, 0, last - MOST_KNOWN // 2 + 1, last) == [0, 3, 3]
