import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.chunked_messages import CLOCKS_DIFFER, KEPT, Chunk, ChunkedMessages, ChunkOutcome
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import EncryptionKeys, MessageMetadata


def at(entry: int) -> MessageId:
    return MessageId(1, entry)


def chunk(entry: int, chunk_id: int, uuid: str = "a", *, of: int = 3, age: float = 0.0) -> Chunk:
    return Chunk(at(entry), uuid, chunk_id, of, 2 * of, b"%02d" % chunk_id, age)


def assembly(
    *, max_pending: int = 10, auto_ack_oldest: bool = False, expiry: float = 60.0, ordered: bool = False
) -> ChunkedMessages:
    return ChunkedMessages(
        max_size=100, max_pending=max_pending, auto_ack_oldest=auto_ack_oldest, expiry=expiry, ordered=ordered
    )


def add(chunks: ChunkedMessages, *parts: Chunk) -> ChunkOutcome:
    return [chunks.add(part, 0.0) for part in parts][-1]


def expired(chunks: ChunkedMessages, now: float) -> list[MessageId]:
    """Return the chunks of messages that expire, whether they are given back or acknowledged."""
    outcome = chunks.expire(now)
    return [*outcome.acknowledge, *outcome.redeliver_later]


@given(st.lists(st.sampled_from("abc"), min_size=9, max_size=9).filter(lambda order: min(map(order.count, "abc")) > 1))
def test_interleaved_messages_come_out_whole(order: list[str]) -> None:
    chunks, seen = assembly(), {uuid: order.count(uuid) for uuid in order}
    done, place = dict.fromkeys(seen, 0), {uuid: list[int]() for uuid in seen}
    for entry, uuid in enumerate(order):
        outcome = add(chunks, chunk(entry, done[uuid], uuid, of=seen[uuid]))
        done[uuid] += 1
        place[uuid] = [*place[uuid], entry]
        is_last = done[uuid] == seen[uuid]
        assert (outcome.assembled is not None) == is_last
        assert outcome.permits == (0 if is_last else 1)
        if outcome.assembled:
            message_id = outcome.assembled.message_id
            assert outcome.assembled.payload == b"".join(b"%02d" % one for one in range(seen[uuid]))
            assert (message_id.entry_id, message_id.first_chunk) == (entry, at(place[uuid][0]))
            assert chunks.chunks_of(message_id) == tuple((1, one) for one in place[uuid])
    assert chunks.next_expiry() is None


def test_a_repeated_first_chunk_begins_anew() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 0)).acknowledge == [at(0), at(1)], "sent twice"
    assert add(chunks, chunk(2, 0)).acknowledge == [], "delivered twice"
    assert add(chunks, chunk(3, 1), chunk(4, 2)).assembled is not None


def test_a_repeated_chunk_is_dropped() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 1)) == ChunkOutcome(acknowledge=[at(2)])
    assert add(chunks, chunk(1, 1)) == ChunkOutcome()
    assert add(chunks, chunk(3, 2)).assembled is not None


def of_producer(entry: int, chunk_id: int, sequence_id: int, producer: str = "p", *, of: int = 3) -> Chunk:
    metadata = MessageMetadata(producer_name=producer, sequence_id=sequence_id, publish_time=0)
    return chunk(entry, chunk_id, f"{producer}-{sequence_id}", of=of)._replace(metadata=metadata)


def with_overtaken(**options: Any) -> ChunkedMessages:
    """Return an assembly that has had two chunks of each of three messages, and has room for two."""
    chunks = assembly(max_pending=2, **options)
    for entry in range(6):
        assert chunks.add(of_producer(entry, entry % 2, entry // 2), float(entry)) == ChunkOutcome()
    return chunks


def test_messages_that_their_producer_has_overtaken_keep_out_no_other() -> None:
    chunks = with_overtaken()
    for entry, producer in ((10, "p"), (20, "q")):
        parts = [of_producer(entry + chunk_id, chunk_id, 9, producer) for chunk_id in range(3)]
        assert add(chunks, *parts).assembled is not None


@pytest.mark.parametrize("ordered", [False, True])
def test_an_overtaken_message_is_complete_when_its_chunks_have_come_again(*, ordered: bool) -> None:
    chunks = with_overtaken(ordered=ordered)
    assert chunks.first_unread((1, 9)) == (1, 0)
    assert chunks.has_chunk("p-0", (1, 1))
    again = [of_producer(0, 0, 0), of_producer(1, 1, 0), of_producer(6, 2, 0)]
    assert add(chunks, again[2]) == ChunkOutcome(redeliver_later=[at(0), at(1), at(6)])
    add(chunks, again[0], of_producer(7, 0, 3), of_producer(8, 0, 4))
    assert add(chunks, *again[1:]).assembled is not None, "it keeps its room now"


def test_an_overtaken_message_of_which_nothing_comes_any_more_expires_like_others() -> None:
    chunks = with_overtaken()
    assert chunks.next_expiry() == 61.0
    assert expired(chunks, 61.0) == [at(0), at(1)]
    assert expired(chunks, 65.0) == [at(2), at(3), at(4), at(5)]
    assert chunks.next_expiry() is None


def test_no_message_expires_before_the_broker_has_had_permits_for_long_without_a_break() -> None:
    chunks = with_overtaken()
    chunks.pause()
    assert chunks.next_expiry() is None
    assert expired(chunks, 1e6) == []
    assert chunks.resume(1010.0)
    assert not chunks.resume(1020.0)
    assert chunks.next_expiry() == 1070.0
    chunks.pause()
    chunks.resume(1069.0)
    assert expired(chunks, 1128.0) == []
    assert expired(chunks, 1129.0) == [at(entry) for entry in (2, 3, 4, 5, 0, 1)]


def test_what_was_dropped_is_expected_while_no_chunk_can_come() -> None:
    full = assembly(max_pending=1)
    full.add(chunk(0, 0, "other"), 0.0)
    full.add(chunk(1, 0), 0.0)
    full.pause()
    full.resume(1000.0)
    assert full.add(chunk(2, 1, age=999.0), 1060.0) == ChunkOutcome(redeliver_later=[at(2)])
    assert full.add(chunk(2, 1, age=999.0), 1060.1) == ChunkOutcome(redeliver_later=[at(2)]), "now it has no beginning"
    assert full.add(chunk(2, 1, age=999.0), 1180.0) == ChunkOutcome(redeliver_later=[at(2)])
    assert full.add(chunk(2, 1, age=999.0), 1180.1) == ChunkOutcome(acknowledge=[at(2)])


def without_permits() -> ChunkedMessages:
    """Return an assembly with a chunk that came at 1000.0, whose broker has no permits."""
    chunks = assembly()
    chunks.pause()
    chunks.add(chunk(0, 0, age=900.0), 1000.0)
    return chunks


def test_without_permits_a_message_expires_when_later_entries_come_and_the_clocks_of_producers_may_be_ahead() -> None:
    chunks = without_permits()
    latest = 1000.0 + 60.0 + CLOCKS_DIFFER
    assert not chunks.note_entry(2000.0 - latest, 2000.0)
    assert expired(chunks, 2000.0) == []
    assert chunks.note_entry(2000.0 - latest - 0.1, 2000.0)
    assert chunks.next_expiry() == 1060.0
    assert expired(chunks, 2000.0) == [at(0)]


def test_of_an_entry_from_the_future_nothing_follows() -> None:
    chunks = without_permits()
    assert not chunks.note_entry(-CLOCKS_DIFFER - 0.1, 1010.0)
    assert not chunks.note_entry(0.0, 1200.0)


def test_a_message_whose_chunks_take_long_expires_when_none_has_come_for_long() -> None:
    chunks = assembly()
    for part in range(3):
        assert expired(chunks, 50.0 * part) == []
        outcome = chunks.add(chunk(part, part), 50.0 * part)
    assert outcome.assembled is not None
    for part in range(2):
        chunks.add(chunk(10 + part, part), 200.0 + 50.0 * part)
    assert chunks.next_expiry() == 310.0
    assert expired(chunks, 310.0) == [at(10), at(11)]


def test_of_several_messages_the_one_expires_first_to_which_no_chunk_has_come_for_longest() -> None:
    chunks = assembly()
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 0, "b"), 10.0)
    chunks.add(chunk(2, 1, "a"), 50.0)
    assert chunks.next_expiry() == 70.0
    assert expired(chunks, 70.0) == [at(1)]


def come_again(chunks: ChunkedMessages, come: dict[float, Chunk]) -> ChunkOutcome:
    """Add chunks at their times, and again when they have been set aside; return the outcome of the last."""
    here = {part.message_id: part for part in come.values()}
    due = [(now, part.message_id) for now, part in come.items()]
    for _ in range(100):
        if not due:
            break
        now, one = min(due)
        due.remove((now, one))
        over = expired(chunks, now)
        outcome = chunks.add(here[one], now)
        assert not {*over, *outcome.acknowledge} & {*here}
        due += ((outcome.due, again) for again in outcome.redeliver_later if again in here)
    return outcome


@pytest.mark.parametrize(
    ("delay", "come"), [(600.0, (0, 61, 599)), (600.0, (0, 540, 601)), (60.0, (0, 30, 70)), (10.0, (0, 9, 19))]
)
def test_a_message_whose_chunks_were_set_aside_comes_out_whole(delay: float, come: tuple[float, ...]) -> None:
    chunks = assembly(max_pending=1)
    chunks.add(chunk(0, 0, "other"), 0.0)
    parts = (chunk(1 + part, part, age=999.0)._replace(set_aside=delay) for part in range(3))
    first = next(parts)
    assert chunks.add(first, 0.0).redeliver_later == [at(1)]
    add(chunks, chunk(10, 1, "other"), chunk(11, 2, "other"))
    assert come_again(chunks, {delay: first, **dict(zip(come[1:], parts, strict=True))}).assembled is not None


def test_a_message_that_was_overtaken_after_it_had_been_set_aside_is_given_its_time_again() -> None:
    chunks = assembly(max_pending=2)
    add(chunks, chunk(0, 0, "q"), chunk(1, 0, "r"))
    parts = [of_producer(10 + chunk_id, chunk_id, 0, "p") for chunk_id in range(3)]
    assert [chunks.add(part, 0.0).redeliver_later for part in parts] == [[part.message_id] for part in parts]
    add(chunks, chunk(2, 1, "q"), chunk(3, 2, "q"), chunk(4, 1, "r"), chunk(5, 2, "r"))
    chunks.add(of_producer(20, 0, 1, "p"), 1.0)
    chunks.add(parts[0], 60.1)
    chunks.add(chunk(30, 0, "s"), 60.1)  # there was no room for it
    assert chunks.add(parts[1], 60.1).redeliver_later == [at(10), at(11)]
    old = parts[2]._replace(age=999.0)
    assert chunks.add(old, 60.1).redeliver_later == [at(12)]


def test_a_message_that_keeps_its_room_still_does_so_after_it_was_refused() -> None:
    chunks = with_overtaken(ordered=True)
    again = [of_producer(0, 0, 0), of_producer(1, 1, 0), of_producer(6, 2, 0)]
    add(chunks, again[2], chunk(7, 0, "x"), of_producer(8, 0, 0, "y"))
    assert add(chunks, again[0]).redeliver_later == [at(0)], "there is no room"
    chunks.expire(65.0)
    add(chunks, again[0], of_producer(9, 0, 8), of_producer(10, 0, 9))
    assert add(chunks, *again[1:]).assembled is not None


def test_overtaken_messages_that_come_again_keep_out_no_other_either() -> None:
    chunks = with_overtaken()
    chunks.drop_unfinished(is_lost=True)
    for entry in range(6):
        assert add(chunks, of_producer(entry, entry % 2, entry // 2)) == ChunkOutcome()
    assert add(chunks, *(of_producer(10 + chunk_id, chunk_id, 9, "q") for chunk_id in range(3))).assembled is not None


def test_repeated_chunks_of_an_overtaken_message_are_dropped() -> None:
    chunks = with_overtaken()
    assert add(chunks, of_producer(1, 1, 0)) == ChunkOutcome(), "delivered twice"
    assert add(chunks, of_producer(6, 1, 0)) == ChunkOutcome(acknowledge=[at(6)]), "sent twice"
    assert add(chunks, of_producer(7, 0, 0)) == ChunkOutcome(acknowledge=[at(0), at(1)]), "sent twice, from its start"


def test_an_overtaken_message_for_whose_return_there_is_no_room_comes_again() -> None:
    chunks = with_overtaken()
    add(chunks, chunk(6, 0, "other"))
    again = [of_producer(0, 0, 0), of_producer(1, 1, 0), of_producer(9, 2, 0)]
    assert add(chunks, again[0]) == ChunkOutcome(redeliver_later=[at(1), at(0)])
    add(chunks, chunk(7, 1, "other"), chunk(8, 2, "other"))
    assert add(chunks, *again).assembled is not None


def test_of_messages_of_one_producer_that_are_interleaved_no_more_give_up_their_room_than_must() -> None:
    chunks = assembly(max_pending=2)
    add(chunks, *(of_producer(number, 0, number) for number in range(3)))
    for number in (1, 2):
        rest = [of_producer(3 * number + chunk_id, chunk_id, number) for chunk_id in (1, 2)]
        assert add(chunks, *rest).assembled is not None
    assert add(chunks, of_producer(9, 1, 0)).redeliver_later == [at(0), at(9)]


def test_of_overtaken_messages_no_more_are_kept_than_a_thousand_even_if_they_never_expire() -> None:
    chunks = assembly(max_pending=2, expiry=0)
    begun = KEPT + 12
    outcomes = [add(chunks, of_producer(number, 0, number)) for number in range(begun)]
    acknowledged = [one for outcome in outcomes for one in outcome.acknowledge]
    assert acknowledged == [at(number) for number in range(10)], "those that were overtaken first"
    assert chunks.first_unread((1, begun)) == (1, 10)


@pytest.mark.parametrize("gone", ["connection", "seek"])
def test_overtaken_messages_are_forgotten_with_the_others(gone: str) -> None:
    chunks = with_overtaken()
    if gone == "seek":
        chunks.clear()
    else:
        chunks.drop_unfinished(is_lost=True)
    assert chunks.next_expiry() is None
    assert chunks.is_dropped((1, 0)) == (gone == "connection")


def test_a_chunk_that_comes_too_early_drops_the_message() -> None:
    chunks = assembly()
    assert add(chunks, chunk(0, 0), chunk(2, 2)) == ChunkOutcome(redeliver_later=[at(0), at(2)])
    assert add(chunks, chunk(1, 1)) == ChunkOutcome(redeliver_later=[at(1)])
    assert add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 2)).assembled is not None


@pytest.mark.parametrize(("age", "expiry", "gives_up"), [(61.0, 60.0, True), (59.0, 60.0, False), (999.0, 0, False)])
def test_a_chunk_without_a_beginning_is_given_up_when_it_is_old_and_others_had_time_to_give_the_beginning_back(
    age: float, expiry: float, *, gives_up: bool
) -> None:
    chunks, stray = assembly(expiry=expiry), chunk(1, 1, age=age)
    for now in (0.0, 60.0, 119.0):
        assert chunks.add(stray, now).redeliver_later == [at(1)]
    assert chunks.add(stray, 120.0).acknowledge == ([at(1)] if gives_up else [])


def test_an_old_message_of_which_a_chunk_is_missing_comes_again_once_before_it_is_given_up() -> None:
    chunks, parts = assembly(), (chunk(0, 0), chunk(2, 2, age=61.0))
    assert add(chunks, *parts) == ChunkOutcome(redeliver_later=[at(0), at(2)])
    assert add(chunks, *parts) == ChunkOutcome(redeliver_later=[at(0), at(2)]), "one by one"
    assert add(chunks, *parts) == ChunkOutcome(acknowledge=[at(0), at(2)])


def test_an_old_message_of_which_a_chunk_is_missing_does_not_go_from_one_consumer_to_the_next_for_ever() -> None:
    chunks, parts = assembly(), (chunk(0, 0), chunk(2, 2, age=61.0))
    assert add(chunks, *parts).redeliver_later == [at(0), at(2)]
    chunks.add(chunk(8, 0, "b"), 999.0)  # others had it meanwhile
    chunks.add(chunk(10, 2, "b"), 999.0)
    chunks.add(parts[0], 1000.0)
    assert chunks.add(parts[1], 1000.0).acknowledge == [at(0), at(2)]


def test_a_message_that_expires_is_given_back_once_and_then_acknowledged() -> None:
    chunks = assembly()
    for part in (0, 1):
        chunks.add(chunk(part, part), 0.0)
    assert chunks.expire(60.0) == ChunkOutcome(permits=0, redeliver_later=[at(0), at(1)])
    for part in (0, 1):
        chunks.add(chunk(part, part), 61.0)
    assert chunks.expire(121.0) == ChunkOutcome(permits=0, acknowledge=[at(0), at(1)])


def test_a_message_that_expires_in_order_is_acknowledged_at_once() -> None:
    chunks = assembly(ordered=True)
    chunks.add(chunk(0, 0), 0.0)
    assert chunks.expire(60.0) == ChunkOutcome(permits=0, acknowledge=[at(0)])


def test_a_message_that_was_given_back_and_came_out_whole_is_given_back_again_after_it_was_refused() -> None:
    chunks = assembly()
    chunks.add(chunk(0, 0), 0.0)
    chunks.expire(60.0)
    chunks.add(chunk(1, 1), 60.0)
    whole = [chunks.add(chunk(part, part), 70.0) for part in range(3)][-1].assembled
    assert whole is not None
    redelivered(chunks, whole.message_id)
    chunks.add(chunk(0, 0), 999.0)
    assert chunks.expire(2000.0).redeliver_later == [at(0)]


def test_what_was_given_back_before_a_seek_is_given_back_again() -> None:
    chunks = assembly()
    chunks.add(chunk(0, 0), 0.0)
    chunks.expire(60.0)
    chunks.clear()
    chunks.add(chunk(0, 0), 70.0)
    assert chunks.expire(130.0).redeliver_later == [at(0)]


def test_a_message_that_was_given_back_may_come_again_one_by_one() -> None:
    chunks = assembly()
    chunks.add(chunk(0, 0), 0.0)
    chunks.expire(60.0)
    chunks.add(chunk(0, 0), 61.0)
    assert chunks.add(chunk(2, 2, age=999.0), 61.0).redeliver_later == [at(0), at(2)]
    for part in (0, 1):
        chunks.add(chunk(part, part), 62.0)
    assert chunks.add(chunk(2, 2, age=999.0), 62.0).assembled is not None


def test_a_chunk_that_came_before_its_beginning_comes_again_before_the_message_expires() -> None:
    chunks = assembly()
    early = chunks.add(chunk(2, 2, age=999.0)._replace(set_aside=60.0), 0.0)
    for part in (0, 1):
        chunks.add(chunk(part, part), 0.1)
    assert early.redeliver_later == [at(2)]
    assert early.due < 60.0
    assert chunks.add(chunk(2, 2, age=999.0), early.due).assembled is not None
    assert chunks.add(chunk(2, 2, age=999.0), 999.0).redeliver_later == [at(2)], "it was refused, and comes first again"


@pytest.mark.parametrize("messages", [1, 3 * KEPT])
def test_however_many_chunks_have_no_beginning_all_are_given_up_in_the_end(messages: int) -> None:
    chunks = assembly()
    strays = {at(one): chunk(one, 1, str(one % messages), age=999.0) for one in range(3 * KEPT)}
    now = 0.0
    while strays and now < 10_000.0:
        outcomes = [chunks.add(stray, now) for stray in strays.values()]
        assert len(chunks._given_back) <= KEPT
        for one in (one for outcome in outcomes for one in outcome.acknowledge):
            del strays[one]
        now += 60.0
    assert now == (180.0 if messages == 1 else 1380.0)


def test_the_redelivery_count_of_a_message_is_the_lowest_of_its_chunks() -> None:
    whole = add(
        assembly(), *(chunk(part, part)._replace(redelivery_count=(7, 3, 5)[part]) for part in range(3))
    ).assembled
    assert whole is not None
    assert whole.redelivery_count == 3


def test_an_old_chunk_whose_beginning_will_come_again_is_not_given_up() -> None:
    chunks = assembly()
    chunks.add(chunk(0, 0), 0.0)
    chunks.drop_unfinished(is_lost=True)
    assert add(chunks, chunk(1, 1, age=999.0)) == ChunkOutcome(redeliver_later=[at(1)])
    assert chunks.add(chunk(1, 1, age=999.0), 61.0) == ChunkOutcome(redeliver_later=[at(1)]), "it did not come"
    assert chunks.add(chunk(1, 1, age=999.0), 181.0) == ChunkOutcome(acknowledge=[at(1)])


def test_an_older_message_with_the_same_uuid_comes_out_whole_and_so_does_the_newer_one() -> None:
    chunks = assembly()
    add(chunks, chunk(2, 0, of=2))
    assert add(chunks, chunk(0, 0, of=2)) == ChunkOutcome(redeliver_later=[at(2)])
    assert add(chunks, chunk(3, 1, of=2)) == ChunkOutcome(redeliver_later=[at(3)]), "it is of the newer one"
    older = add(chunks, chunk(1, 1, of=2)).assembled
    assert older is not None
    assert chunks.chunks_of(older.message_id) == ((1, 0), (1, 1))
    newer = add(chunks, chunk(2, 0, of=2), chunk(3, 1, of=2)).assembled
    assert newer is not None
    assert chunks.chunks_of(newer.message_id) == ((1, 2), (1, 3))


def test_a_newer_message_with_the_same_uuid_acknowledges_none_whose_chunks_come_again_one_by_one() -> None:
    chunks = assembly(max_pending=1)
    add(chunks, chunk(0, 0, "other"))
    assert add(chunks, chunk(1, 0, of=2)).redeliver_later == [at(1)]
    add(chunks, chunk(3, 1, "other"), chunk(4, 2, "other"), chunk(1, 0, of=2))
    assert add(chunks, chunk(5, 0, of=2)) == ChunkOutcome(redeliver_later=[at(1)])


def test_two_incomplete_messages_with_one_uuid_are_not_dropped_for_each_other_for_ever() -> None:
    chunks = assembly(max_pending=1)
    add(chunks, chunk(9, 0, "other"), chunk(0, 0), chunk(2, 0))  # neither has room
    add(chunks, chunk(10, 1, "other"), chunk(11, 2, "other"))
    given_up: list[MessageId] = []
    for again in range(10):
        for entry in (0, 2):  # the last chunk of neither will ever come
            outcomes = [chunks.add(chunk(entry + part, part, age=100.0), 10.0 * again) for part in (0, 1)]
            given_up += [one for outcome in outcomes for one in outcome.acknowledge]
        given_up += chunks.expire(10.0 * again).acknowledge
    assert {at(0), at(1)} <= set(given_up)


def test_a_message_of_which_a_chunk_is_missing_each_time_is_given_up() -> None:
    chunks = assembly(max_pending=1)
    add(chunks, chunk(9, 0, "other"), chunk(0, 0), chunk(10, 1, "other"), chunk(11, 2, "other"))
    outcomes = [add(chunks, chunk(0, 0), chunk(2, 2, age=100.0)) for _ in range(2)]
    assert [outcome.redeliver_later for outcome in outcomes] == [[at(0), at(2)], []]
    assert outcomes[1].acknowledge == [at(0), at(2)]


def test_a_corrupt_first_chunk_harms_no_other_message_with_its_uuid() -> None:
    chunks = assembly()
    add(chunks, chunk(0, 0, of=2))
    assert add(chunks, Chunk(at(5), "a", 0, 2, 101, b"00")) == ChunkOutcome(corrupt=[at(5)])
    assert add(chunks, chunk(1, 1, of=2)).assembled is not None


def test_in_order_a_chunk_without_a_beginning_is_given_up_at_once_unless_that_was_dropped_here() -> None:
    chunks = assembly(max_pending=1, ordered=True)
    assert add(chunks, chunk(1, 1)) == ChunkOutcome(acknowledge=[at(1)])
    assert add(chunks, chunk(2, 0), chunk(4, 2)) == ChunkOutcome(acknowledge=[at(2), at(4)])
    add(chunks, chunk(5, 0), chunk(6, 0, "b"))
    assert add(chunks, chunk(7, 1, "b")) == ChunkOutcome(redeliver_later=[at(7)])


def test_without_an_expiry_a_dropped_message_is_expected_for_ever() -> None:
    chunks = assembly(expiry=0, ordered=True)
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 0, "b"), 1.0)
    chunks.drop_unfinished(is_lost=True)
    assert chunks.will_come_again(1e6)
    assert chunks.unread_from((1, 9)) == (1, 0)


def test_in_order_a_dropped_message_is_expected_until_what_is_behind_it_comes() -> None:
    chunks = assembly(ordered=True)
    chunks.add(chunk(3, 0), 0.0)
    assert not chunks.came_up_to((1, 9))
    chunks.drop_unfinished(is_lost=True)
    assert not chunks.came_up_to((1, 2))
    assert chunks.will_come_again(1e6)
    assert chunks.came_up_to((1, 3))
    assert not chunks.will_come_again(0.0)


@pytest.mark.parametrize(("is_lost", "expires"), [(False, 60.0), (True, 100.0)])
def test_what_begins_again_in_a_redelivery_is_as_old_as_before(*, is_lost: bool, expires: float) -> None:
    chunks = assembly(ordered=True)
    chunks.add(chunk(0, 0), 0.0)
    chunks.drop_unfinished(is_lost=is_lost)
    chunks.add(chunk(0, 0), 40.0)
    assert chunks.next_expiry() == expires


def test_in_a_redelivery_only_a_chunk_that_had_not_come_before_makes_a_message_younger() -> None:
    chunks = assembly(ordered=True)
    for part in (0, 1):
        chunks.add(chunk(part, part, of=4), 10.0 * part)
    for now in (30.0, 40.0):
        chunks.drop_unfinished(is_lost=False)
        chunks.add(chunk(0, 0, of=4), now)
    chunks.add(chunk(1, 1, of=4), 45.0)
    assert chunks.next_expiry() == 70.0
    chunks.add(chunk(2, 2, of=4), 50.0)
    assert chunks.next_expiry() == 110.0


def test_the_first_unread_chunk_is_of_a_message_that_is_incomplete_dropped_or_not_acknowledged() -> None:
    chunks = assembly(max_pending=1, ordered=True)
    assert chunks.first_unread((1, 9)) is None
    add(chunks, chunk(4, 0, of=2))
    assert (chunks.first_unread((1, 3)), chunks.first_unread((1, 4))) == (None, (1, 4))
    add(chunks, chunk(5, 0, "b", of=2), chunk(6, 1, of=2))
    assert chunks.first_unread((1, 9)) == (1, 4)
    chunks.acknowledged_up_to((1, 6))
    assert chunks.first_unread((1, 9)) == (1, 5)
    add(chunks, chunk(5, 0, "b", of=2), chunk(7, 1, "b", of=2))
    assert chunks.first_unread((1, 6)) == (1, 5)
    for _ in range(3):
        chunks.rebound()
        assert chunks.first_unread((1, 6)) == (1, 5), "it is in use"
    chunks.acknowledged_up_to((1, 7))
    assert chunks.first_unread((1, 9)) is None


@given(in_flight=st.integers(3, 9), length=st.integers(2, 5), gap=st.integers(1, 9), max_pending=st.integers(1, 3))
def test_however_many_are_on_their_way_those_that_have_room_are_finished(
    in_flight: int, length: int, gap: int, max_pending: int
) -> None:
    chunks = assembly(max_pending=max_pending)
    starts = {str(one): one * gap for one in range(in_flight)}
    order = sorted((start + part * in_flight, uuid, part) for uuid, start in starts.items() for part in range(length))
    outcomes = [add(chunks, chunk(entry, part, uuid, of=length)) for entry, (_, uuid, part) in enumerate(order)]
    assert sum(outcome.assembled is not None for outcome in outcomes) >= min(max_pending, in_flight)
    assert chunks.next_expiry() is None, "what is begun is finished"
    later = {one.entry_id for outcome in outcomes for one in outcome.redeliver_later}
    whole = {
        one[1] for outcome in outcomes if outcome.assembled for one in chunks.chunks_of(outcome.assembled.message_id)
    }
    assert later | whole == set(range(len(order))), "a chunk was lost"


def test_a_message_that_found_no_room_begins_when_it_comes_again() -> None:
    chunks = assembly(max_pending=1)
    add(chunks, chunk(0, 0, "a"))
    assert add(chunks, chunk(1, 0, "b", age=999.0)) == ChunkOutcome(redeliver_later=[at(1)])
    assert add(chunks, chunk(2, 1, "b", age=999.0)) == ChunkOutcome(redeliver_later=[at(2)])
    assert add(chunks, chunk(3, 1, "a"), chunk(4, 2, "a")).assembled is not None
    assert add(chunks, chunk(1, 0, "b"), chunk(2, 1, "b"), chunk(5, 2, "b")).assembled is not None


def test_a_message_that_found_no_room_will_come_again_until_it_has_begun_or_is_old() -> None:
    chunks = assembly(max_pending=1)
    assert not chunks.will_come_again(0.0)
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 0, "b"), 0.0)
    assert chunks.will_come_again(60.0)
    assert not chunks.will_come_again(60.1)
    for part in (chunk(2, 1, "a"), chunk(3, 2, "a"), chunk(1, 0, "b")):
        chunks.add(part, 1.0)
    assert not chunks.will_come_again(1.0)


def test_no_limit_is_no_limit() -> None:
    unlimited = assembly(max_pending=0)
    assert add(unlimited, *(chunk(one, 0, str(one)) for one in range(50))).redeliver_later == []


def test_the_oldest_is_given_up_for_another_if_the_user_says_so() -> None:
    chunks = assembly(max_pending=2, auto_ack_oldest=True)
    parts = [chunk(0, 0, "a"), chunk(1, 1, "a"), chunk(2, 0, "b"), chunk(3, 0, "c")]
    assert add(chunks, *parts) == ChunkOutcome(acknowledge=[at(0), at(1)])
    assert add(chunks, chunk(4, 1, "b"), chunk(5, 2, "b")).assembled is not None


def test_the_oldest_leaves_its_place_when_nothing_comes_of_it() -> None:
    chunks = assembly(max_pending=1, expiry=600.0)
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 1, "a"), 30.0)
    assert chunks.add(chunk(2, 0, "b"), 90.0).redeliver_later == [at(2)]
    assert chunks.add(chunk(2, 0, "b"), 91.0).redeliver_later == [at(0), at(1)]
    assert chunks.add(chunk(3, 2, "a", age=999.0), 92.0) == ChunkOutcome(redeliver_later=[at(3)])


def test_the_oldest_leaves_its_place_however_often_the_broker_has_no_permits() -> None:
    chunks = assembly(max_pending=1)
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.pause()
    chunks.resume(50.0)
    assert chunks.add(chunk(1, 0, "b"), 60.0).redeliver_later == [at(1)]
    assert chunks.add(chunk(1, 0, "b"), 60.1).redeliver_later == [at(0)]


@pytest.mark.parametrize("expiry", [60.0, 0])
def test_of_messages_that_others_may_get_after_a_reconnect_no_more_are_remembered_than_a_thousand(
    expiry: float,
) -> None:
    chunks = assembly(expiry=expiry)
    for one in range(KEPT + 10):
        chunks.add(chunk(one, 0, str(one)), float(one))
        chunks.drop_unfinished(is_lost=True)
    assert len(chunks._dropped) == KEPT
    in_order = assembly(expiry=expiry, ordered=True, max_pending=0)
    add(in_order, *(chunk(one, 0, str(one)) for one in range(KEPT + 10)))
    in_order.drop_unfinished(is_lost=True)
    assert in_order.is_dropped((1, 0)), "all of them come again here"


def test_of_what_was_dropped_no_more_is_remembered_than_may_still_come() -> None:
    chunks = assembly(max_pending=1)
    chunks.add(chunk(0, 0, "a"), 0.0)
    for one in range(1, 1000):
        chunks.add(chunk(0, 0, "a"), float(one))
        chunks.add(chunk(one, 0, str(one)), float(one))
    assert len(chunks._dropped) <= 61


def test_what_is_unfinished_expires() -> None:
    chunks = assembly()
    assert chunks.next_expiry() is None
    chunks.add(chunk(0, 0, "a"), 0.0)
    chunks.add(chunk(1, 0, "b"), 30.0)
    assert expired(chunks, 59.0) == []
    assert expired(chunks, 60.0) == [at(0)]
    assert chunks.next_expiry() == 90.0
    chunks.clear()
    assert expired(chunks, 999.0) == []


@pytest.mark.parametrize("expiry", [-1.0, math.nan, math.inf])
def test_an_expiry_that_can_not_be_waited_for_is_refused(expiry: float) -> None:
    with pytest.raises(InvalidArgument, match="0 to 1,000,000,000 seconds, not"):
        assembly(expiry=expiry)


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
    assert chunks.next_expiry() is None


def test_sizes_that_do_not_add_up_are_corrupt() -> None:
    chunks = assembly()
    short = Chunk(at(2), "a", 2, 3, 6, b"1")
    assert add(chunks, chunk(0, 0), chunk(1, 1), short) == ChunkOutcome(corrupt=[at(0), at(1), at(2)])


def test_the_chunks_of_a_message_are_known_until_it_is_acknowledged() -> None:
    chunks = assembly()
    whole = add(chunks, chunk(0, 0), chunk(5, 1), chunk(9, 2)).assembled
    assert whole is not None
    assert chunks.take_chunks_of(whole.message_id) == ((1, 0), (1, 5), (1, 9))
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 9)), "what the id itself knows"
    assert chunks.chunks_of(at(3)) == ((1, 3),)


def finished(chunks: ChunkedMessages, count: int) -> list[MessageId]:
    """Put so many messages of three chunks together, and return their ids."""
    ids: list[MessageId] = []
    for one in range(count):
        whole = add(chunks, *(chunk(3 * one + number, number, str(one)) for number in range(3))).assembled
        assert whole is not None
        ids.append(whole.message_id)
    return ids


def test_the_chunks_of_a_message_are_known_after_its_transaction() -> None:
    chunks = assembly()
    whole = add(chunks, chunk(0, 0), chunk(5, 1), chunk(9, 2)).assembled
    assert whole is not None
    for _ in range(2):
        assert chunks.take_in_transaction(whole.message_id) == ((1, 0), (1, 5), (1, 9))
        assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 5), (1, 9))
        assert chunks.first_unread((1, 9)) is None
    assert chunks.take_chunks_of(whole.message_id) == ((1, 0), (1, 5), (1, 9))
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 9))


def in_transaction(chunks: ChunkedMessages, message_id: MessageId) -> None:
    chunks.take_in_transaction(message_id)


def redelivered(chunks: ChunkedMessages, message_id: MessageId) -> None:
    chunks.redelivered([message_id.position])


@pytest.mark.parametrize("happens", [in_transaction, redelivered])
def test_of_messages_in_transactions_or_redelivered_ones_the_chunks_of_the_last_are_known(
    happens: Callable[[ChunkedMessages, MessageId], None],
) -> None:
    chunks = assembly()
    ids = finished(chunks, KEPT + 1)
    for one in ids:
        happens(chunks, one)
    assert [len(chunks.chunks_of(one)) for one in ids[:3]] == [2, 3, 3]
    chunks.clear()
    assert len(chunks.chunks_of(ids[-1])) == 2


def test_a_message_that_is_put_together_is_known_although_all_is_redelivered_and_not_after_a_seek() -> None:
    chunks = assembly()
    whole = add(chunks, chunk(0, 0), chunk(5, 1), chunk(9, 2)).assembled
    assert whole is not None
    chunks.drop_unfinished(is_lost=True)
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 5), (1, 9))
    chunks.clear()
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 9))


def test_a_message_that_is_redelivered_is_waited_for_no_more_and_its_chunks_are_known_until_it_is_acknowledged() -> (
    None
):
    chunks = assembly()
    for _ in range(2):
        whole = add(chunks, chunk(0, 0), chunk(1, 1), chunk(2, 2)).assembled
        assert whole is not None
        chunks.redelivered([(1, 0), (1, 1), (1, 2)])
        assert chunks.first_unread((1, 9)) is None, "another consumer may get it"
        assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 1), (1, 2))
    assert chunks.take_chunks_of(whole.message_id) == ((1, 0), (1, 1), (1, 2))
    assert chunks.chunks_of(whole.message_id) == ((1, 0), (1, 2)), "what the id itself knows"


def test_messages_that_are_acknowledged_cumulatively_are_forgotten() -> None:
    chunks = assembly()
    for one in range(100):
        add(chunks, chunk(2 * one, 0, str(one), of=2), chunk(2 * one + 1, 1, str(one), of=2))
    chunks.acknowledged_up_to((1, 198))
    assert list(chunks._finished._values) == [(1, 199)]


@pytest.mark.parametrize(("count", "known"), [(KEPT, 3), (KEPT + 1, 2)])
def test_of_many_messages_those_of_which_a_whole_binding_heard_nothing_are_forgotten(count: int, known: int) -> None:
    chunks = assembly()
    ids = finished(chunks, count)
    chunks.rebound()
    assert len(chunks.chunks_of(ids[0])) == 3
    chunks.rebound()
    assert [len(chunks.chunks_of(one)) for one in ids[:2]] == [3, known], "the first was in use"


def test_a_message_over_the_limit_is_refused_at_its_first_chunk() -> None:
    assert add(assembly(), Chunk(at(0), "a", 0, 60, 100, b"12")) == ChunkOutcome()
    assert add(assembly(), Chunk(at(0), "a", 0, 60, 101, b"12")) == ChunkOutcome(corrupt=[at(0)])


@pytest.mark.parametrize("chunk", [Chunk(at(0), "a", 0, 2, 14, b""), Chunk(at(0), "a", 0, 2**31 - 1, 100, b"1")])
def test_chunks_without_a_byte_each_are_refused_before_they_pile_up(chunk: Chunk) -> None:
    chunks = assembly()
    assert add(chunks, chunk) == ChunkOutcome(corrupt=[at(0)])
    assert chunks.next_expiry() is None


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


def test_encrypted_chunks_are_longer_than_their_parts_and_are_joined_only_when_they_are_decrypted() -> None:
    metadata = MessageMetadata(encryption_keys=[EncryptionKeys(key="k", value=b"wrapped")])
    sizes = (4, 4, 2)
    sealed = [
        Chunk(at(number), "a", number, 3, sum(sizes), bytes([number]) * (size + 16), metadata=metadata)
        for number, size in enumerate(sizes)
    ]
    whole = add(assembly(), *sealed).assembled
    assert whole is not None
    assert whole.parts == tuple((metadata, one.payload) for one in sealed)
    assert whole.payload == b""
    assert add(assembly(), *sealed[:2], sealed[2]._replace(payload=b"x" * 19)).corrupt == [at(0), at(1), at(2)]
    assert add(assembly(), sealed[0]._replace(payload=b"x" * 16)).corrupt == [at(0)]  # nothing but a tag
