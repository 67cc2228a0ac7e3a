import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.ledgers.chunks import Chunk, ChunkAssembly, ChunkOutcome
from pulsar_actors.wire.message_id import MessageId


def at(entry: int) -> MessageId:
    return MessageId(1, entry)


def chunk(entry: int, chunk_id: int, uuid: str = "a", *, of: int = 3, age: float = 0.0) -> Chunk:
    return Chunk(at(entry), uuid, chunk_id, of, 2 * of, b"%02d" % chunk_id, age)


def assembly(*, max_pending: int = 10, auto_ack_oldest: bool = False, expiry: float = 60.0) -> ChunkAssembly:
    return ChunkAssembly(max_size=100, max_pending=max_pending, auto_ack_oldest=auto_ack_oldest, expiry=expiry)


def add(chunks: ChunkAssembly, *parts: Chunk) -> ChunkOutcome:
    return [chunks.add(part, 0.0) for part in parts][-1]


@given(st.lists(st.sampled_from("abc"), min_size=9, max_size=9).filter(lambda order: len(set(order)) == 3))
def test_interleaved_messages_come_out_whole(order: list[str]) -> None:
    chunks, seen = assembly(), {uuid: order.count(uuid) for uuid in order}
    done, place = dict.fromkeys(seen, 0), {uuid: list[int]() for uuid in seen}
    for entry, uuid in enumerate(order):
        outcome = add(chunks, chunk(entry, done[uuid], uuid, of=seen[uuid]))
        done[uuid] += 1
        place[uuid] = [*place[uuid], entry]
        is_last = done[uuid] == seen[uuid]
        assert (outcome.whole is not None) == is_last
        assert outcome.permits == (0 if is_last else 1)
        if outcome.whole:
            message_id = outcome.whole.message_id
            assert outcome.whole.payload == b"".join(b"%02d" % one for one in range(seen[uuid]))
            assert (message_id.entry_id, message_id.first_chunk) == (entry, at(place[uuid][0]))
            assert chunks.chunks_of(message_id) == tuple((1, one) for one in place[uuid])
    assert len(chunks) == 0


def test_a_repeated_first_chunk_begins_anew() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 0)).acknowledge == [at(0), at(1)], "sent twice"
    assert add(chunks, chunk(2, 0)).acknowledge == [], "delivered twice"
    assert add(chunks, chunk(3, 1), chunk(4, 2)).whole is not None


def test_a_repeated_chunk_is_dropped() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 1)) == ChunkOutcome(acknowledge=[at(2)])
    assert add(chunks, chunk(1, 1)) == ChunkOutcome()
    assert add(chunks, chunk(3, 2)).whole is not None


def test_a_chunk_that_comes_too_early_drops_the_message() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(2, 2)) == ChunkOutcome(redeliver=[at(0), at(2)])
    assert add(chunks, chunk(1, 1)) == ChunkOutcome(redeliver=[at(1)])
    assert add(chunks, chunk(1, 1, age=61.0)) == ChunkOutcome(acknowledge=[at(1)])
    assert add(assembly(expiry=0), chunk(1, 1, age=61.0)) == ChunkOutcome(redeliver=[at(1)])


@pytest.mark.parametrize("auto_ack", [False, True])
def test_the_oldest_goes_when_there_are_too_many(*, auto_ack: bool) -> None:
    chunks = assembly(max_pending=2, auto_ack_oldest=auto_ack)
    outcome = add(chunks, chunk(0, 0, "a"), chunk(1, 1, "a"), chunk(2, 0, "b"), chunk(3, 0, "c"))
    assert len(chunks) == 2
    assert (outcome.acknowledge if auto_ack else outcome.redeliver) == [at(0), at(1)]
    unlimited = assembly(max_pending=0)
    assert add(unlimited, *(chunk(one, 0, str(one)) for one in range(50))).redeliver == []


def test_what_is_unfinished_expires() -> None:
    chunks = assembly()
    assert chunks.next_expiry() is None
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 0, "b"), 30.0)
    assert chunks.expire(59.0) == []
    assert chunks.expire(60.0) == [at(0)]
    assert chunks.next_expiry() == 90.0
    chunks.clear()
    assert chunks.expire(999.0) == []


@pytest.mark.parametrize(
    "wrong",
    [
        Chunk(at(9), "a", -1, 3, 6, b""),
        Chunk(at(9), "a", 3, 3, 6, b""),
        Chunk(at(9), "a", 1, 0, 6, b""),
        Chunk(at(9), "a", 1, 3, 101, b""),
        Chunk(at(9), "a", 1, 3, -1, b""),
        Chunk(at(9), "a", 1, 3, 6, b"1234567"),
        Chunk(at(9), "a", 1, 3, 6, b"12345"),
        Chunk(at(9), "a", 1, 4, 6, b"12"),
        Chunk(at(9), "a", 1, 3, 7, b"12"),
        Chunk(at(9), "a", 1, 3, 6, b""),
    ],
)
def test_a_chunk_that_contradicts_itself_or_the_others_makes_all_corrupt(wrong: Chunk) -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), wrong) == ChunkOutcome(corrupt=[at(0), at(9)])
    assert len(chunks) == 0


def test_sizes_that_do_not_add_up_are_corrupt() -> None:
    chunks = assembly()
    short = Chunk(at(2), "a", 2, 3, 6, b"1")
    assert add(chunks, chunk(0, 0), chunk(1, 1), short) == ChunkOutcome(corrupt=[at(0), at(1), at(2)])
    assert add(chunks, Chunk(at(3), "b", 0, 1, 5, b"1")) == ChunkOutcome(corrupt=[at(3)])
    assert add(chunks, chunk(4, 0, "c", of=1)).whole is not None


def test_the_chunks_of_a_message_are_known_until_it_is_acknowledged() -> None:
    chunks = assembly()
    whole = add(chunks, chunk(0, 0), chunk(5, 1), chunk(9, 2)).whole
    assert whole is not None
    assert chunks.take_chunks_of(whole.message_id) == ((1, 0), (1, 5), (1, 9))
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 9)), "what the id itself knows"
    assert chunks.chunks_of(at(3)) == ((1, 3),)


def test_a_message_over_the_limit_is_refused_at_its_first_chunk() -> None:
    assert add(assembly(), Chunk(at(0), "a", 0, 60, 100, b"12")) == ChunkOutcome()
    assert add(assembly(), Chunk(at(0), "a", 0, 60, 101, b"12")) == ChunkOutcome(corrupt=[at(0)])


@pytest.mark.parametrize("chunk", [Chunk(at(0), "a", 0, 2, 14, b""), Chunk(at(0), "a", 0, 2**31 - 1, 100, b"1")])
def test_chunks_without_a_byte_each_are_refused_before_they_pile_up(chunk: Chunk) -> None:
    chunks = assembly()
    assert add(chunks, chunk) == ChunkOutcome(corrupt=[at(0)])
    assert len(chunks) == 0


def test_an_empty_message_may_come_as_one_chunk() -> None:
    assert add(assembly(), Chunk(at(0), "a", 0, 1, 0, b"")).whole is not None


class Compared(MessageId):
    """An id that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return super().__eq__(other)

    __hash__ = MessageId.__hash__


def test_a_repeated_chunk_is_compared_with_its_like_only() -> None:
    chunks = assembly()
    parts = [Chunk(at(entry), "a", entry, 50, 100, b"1") for entry in range(40)]
    add(chunks, *parts)
    for entry in (0, 99):
        Compared.comparisons = 0
        add(chunks, parts[30]._replace(message_id=Compared(1, entry)))
        assert Compared.comparisons <= 1
