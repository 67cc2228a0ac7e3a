from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.incoming_entries import IncomingEntries, IncomingEntry, IncomingOutcome
from pulsar_actors.machines.trackers.ack_set import to_words
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.wire.batch import encode_batch
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandMessage, CompressionType, MessageIdData
from tests.support.consumer_bench import NOW_MS, incoming, trackers

Fault = CommandAck.ValidationError


def take(held: ConsumerTrackers, *messages: IncomingEntry, is_reader: bool = False) -> IncomingOutcome:
    held.ack_grouping.largest_batch = 166
    incoming_entries = IncomingEntries(
        negative_acks=held.negative_acks,
        ack_grouping=held.ack_grouping,
        start=held.start,
        chunks=held.chunks,
        dead_letters=held.dead_letters,
        is_reader=is_reader,
    )
    return incoming_entries.take(messages, 0.0, NOW_MS)


def batch(entry: int, size: int, **options: Any) -> IncomingEntry:
    return incoming(entry, size, payload=encode_batch([(None, b"")] * size), **options)


def wanted(outcome: IncomingOutcome) -> list[int]:
    return [one.wanted for one in outcome.deliver]


def chunk(entry: int, chunk_id: int, *, of: int = 2, total: int = 14, broken: bool = False) -> IncomingEntry:
    return incoming(
        entry, broken=broken, uuid="u", chunk_id=chunk_id, num_chunks_from_msg=of, total_chunk_msg_size=total
    )


def test_a_plain_message_is_one_and_a_batch_of_one_is_one() -> None:
    outcome = take(trackers(), incoming(0), batch(1, 1), batch(2, 3))
    assert wanted(outcome) == [1, 1, 0b111]
    assert (outcome.arrived, outcome.returned) == (5, 0)


def test_what_the_broker_masked_used_no_permits_and_is_not_handed_out() -> None:
    outcome = take(trackers(), batch(0, 5, ack_set=to_words(0b10110)))
    assert wanted(outcome) == [0b10110]
    assert (outcome.arrived, outcome.returned) == (3, 0)


def test_what_the_broker_masked_needs_no_acknowledgement() -> None:
    held = trackers()
    take(held, batch(0, 3, ack_set=[0b100]))
    assert held.ack_grouping.acknowledge([MessageId(1, 0, -1, 2, 3)], Generation(), 0.0).entries == [(1, 0)]


@given(st.integers(1, 70), st.data())
def test_every_permit_that_was_used_is_held_or_given_back(size: int, data: st.DataObject) -> None:
    held = trackers(start=StartMessageId(MessageId(1, 0, -1, data.draw(st.integers(0, size - 1)), size)))
    acked = data.draw(st.sets(st.integers(0, size - 1)))
    held.ack_grouping.acknowledge([MessageId(1, 0, -1, index, size) for index in acked], Generation(), 0.0)
    mask = data.draw(st.integers(1, 2**size - 1))
    outcome = take(held, batch(0, size, ack_set=to_words(mask)))
    assert outcome.arrived == mask.bit_count()
    assert outcome.arrived == outcome.returned + sum(one.messages for one in outcome.deliver)
    assert not any(one >> index & 1 for one in wanted(outcome) for index in acked)


def test_what_is_unreadable_is_refused_and_its_permit_given_back() -> None:
    command = CommandMessage(consumer_id=7, message_id=MessageIdData(ledgerId=1, entryId=9))
    outcome = take(trackers(), (command, b"\x00"))
    assert (outcome.arrived, outcome.returned, outcome.corrupt) == (1, 1, [((1, 9), Fault.ChecksumMismatch)])


@pytest.mark.parametrize(("size", "permits"), [(0, 1), (-5, 1), (2**31 - 1, 2**31 - 1)])
def test_a_batch_that_can_not_be_is_refused_before_a_set_of_its_size_is_made(size: int, permits: int) -> None:
    lie: dict[str, Any] = {"uncompressed_size": 2**32 - 1, "compression": CompressionType.LZ4}
    outcome = take(trackers(), incoming(0, size, payload=b"payload", **lie))
    assert outcome.corrupt == [((1, 0), Fault.BatchDeSerializeError)]
    assert (outcome.arrived, outcome.returned, outcome.deliver) == (permits, permits, [])


def test_a_refused_batch_gives_back_what_the_broker_deducted_for_it() -> None:
    outcome = take(trackers(), incoming(0, 2**31 - 1, payload=b"payload", ack_set=[0b101, -1, 1]))
    assert (outcome.arrived, outcome.returned, len(outcome.corrupt)) == (67, 67, 1)


@pytest.mark.parametrize(
    ("size", "payload", "codec", "uncompressed_size", "is_possible"),
    [
        (10, bytes(60), CompressionType.NONE, 0, True),
        (11, bytes(65), CompressionType.NONE, 0, False),
        (11, bytes(60), CompressionType.NONE, 1000, False),
        (166, b"squeezed", CompressionType.LZ4, 1000, True),
        (167, b"squeezed", CompressionType.LZ4, 1000, False),
        (167, b"squeezed", CompressionType.LZ4, 5 << 20, False),
        (11, bytes(66), CompressionType.LZ4, 65, False),
        (1, b"", CompressionType.LZ4, 1000, False),
        (1, b"", CompressionType.NONE, 0, False),
    ],
)
def test_a_batch_has_room_for_each_of_its_messages(
    *, size: int, payload: bytes, codec: Any, uncompressed_size: int, is_possible: bool
) -> None:
    one = incoming(0, size, payload=payload, compression=codec, uncompressed_size=uncompressed_size)
    outcome = take(trackers(), one)
    assert wanted(outcome) == ([2**size - 1] if is_possible else [])
    assert len(outcome.corrupt) == (not is_possible)


def test_a_batch_that_is_a_chunk_is_refused() -> None:
    chunked: dict[str, Any] = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 100}
    outcome = take(trackers(), batch(0, 5, **chunked), batch(1, 5, ack_set=[1], **chunked))
    assert outcome.corrupt == [((1, entry), Fault.BatchDeSerializeError) for entry in (0, 1)]
    assert (outcome.arrived, outcome.returned) == (6, 6)


def test_the_ack_set_of_what_is_no_batch_means_nothing() -> None:
    chunked: dict[str, Any] = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 14}
    plain = [incoming(entry, ack_set=words) for entry, words in enumerate(([2], [0]))]
    parts = [incoming(entry, ack_set=[2], chunk_id=entry, **chunked) for entry in (0, 1)]
    outcome = take(trackers(), *plain, *parts)
    assert wanted(outcome) == [1, 1, 1]
    assert (outcome.arrived, outcome.returned) == (4, 1)


def test_a_batch_of_which_nothing_is_left_is_acknowledged_as_a_whole() -> None:
    held = trackers()
    held.ack_grouping.acknowledge([MessageId(1, 0, -1, index, 3) for index in (0, 1)], Generation(), 0.0)
    outcome = take(held, batch(0, 3, ack_set=[0b011]), batch(1, 3, ack_set=[0]))
    assert (outcome.arrived, outcome.returned, outcome.deliver, outcome.corrupt) == (2, 2, [], [])
    assert outcome.acknowledge == [MessageId(1, 0), MessageId(1, 1)]
    assert wanted(take(held, batch(1, 3))) == [0b111]


@pytest.mark.parametrize(("ledger", "entry"), [(-1, -1), (1, -1), (-1, 5), (-(2**63), 0), (1, -(2**63))])
def test_an_entry_whose_id_stands_for_none_is_refused(ledger: int, entry: int) -> None:
    one = batch(0, 3)
    one[0].message_id.CopyFrom(MessageIdData(ledgerId=ledger % 2**64, entryId=entry % 2**64))
    outcome = take(trackers(), one)
    assert outcome.corrupt == [((ledger, entry), Fault.ChecksumMismatch)]
    assert (outcome.arrived, outcome.returned, outcome.deliver) == (3, 3, [])


CHUNKED = st.fixed_dictionaries(
    {
        "uuid": st.sampled_from("ab"),
        "chunk_id": st.integers(-1, 2),
        "num_chunks_from_msg": st.sampled_from([1, 2, 2, 3, 2**31 - 1]),
        "total_chunk_msg_size": st.sampled_from([14, 21, 100, 101, -1]),
    }
)
COMPRESSED = st.fixed_dictionaries(
    {
        "compression": st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
        "uncompressed_size": st.sampled_from([0, 18, 1000, 2**32 - 1]),
    }
)
ANYTHING = st.fixed_dictionaries(
    {
        "entry_id": st.sampled_from([0, 0, 1, 2, 3, 2**63, 2**64 - 1]),
        "batch": st.sampled_from([None, None, 0, -5, 1, 3, 3, 70, 2**31 - 1]),
        "payload": st.sampled_from([b"", b"payload", bytes(18), bytes(420)]),
        "ack_set": st.sampled_from([[], [], [0], [1], [2], [5, 0], [0, 1, -1], [-1]]),
        "epoch": st.sampled_from([None, None, 0, 1]),
        "count": st.integers(0, 4),
        "broken": st.booleans(),
        "more": st.one_of(st.just({}), CHUNKED, COMPRESSED),
    }
)
UNREADABLE = (CommandMessage(consumer_id=7, message_id=MessageIdData(ledgerId=1, entryId=9)), b"\0")


def any_entry(options: dict[str, Any] | None) -> IncomingEntry:
    return UNREADABLE if options is None else incoming(**options.pop("more"), **options)


@given(
    reads=st.lists(st.lists(st.none() | ANYTHING, max_size=4).map(lambda all_of: list(map(any_entry, all_of)))),
    ordered=st.booleans(),
    dead=st.sampled_from([None, 2]),
    start=st.sampled_from([None, MessageId(1, 0), MessageId(1, 0, -1, 1, 3)]),
    acked=st.lists(st.sampled_from([MessageId(1, 0), MessageId(1, 1, -1, 0, 3), MessageId(1, 1, -1, 2, 3)])),
)
def test_whatever_comes_every_permit_it_used_is_held_or_given_back(
    *,
    reads: list[list[IncomingEntry]],
    ordered: bool,
    dead: int | None,
    start: MessageId | None,
    acked: list[MessageId],
) -> None:
    place = StartMessageId(start, durable=start is None)
    held = trackers(ordered=ordered, max_redeliver_count=dead, start=place)
    held.negative_acks.request_all()
    held.ack_grouping.acknowledge(acked, Generation(), 0.0)
    for messages in reads:
        outcome = take(held, *messages)
        assert outcome.arrived == outcome.returned + sum(one.messages for one in outcome.deliver)
        assert all(0 < one.wanted < 2 ** max(1, one.entry.metadata.num_messages_in_batch) for one in outcome.deliver)


def test_what_was_sent_before_the_last_redelivery_of_everything_is_dropped() -> None:
    held = trackers(ordered=True)
    held.negative_acks.request_all()
    outcome = take(held, batch(0, 3, epoch=0), incoming(1, epoch=1), incoming(2))
    assert [one.message_id.entry_id for one in outcome.deliver] == [1, 2]
    assert outcome.returned == 3


def test_what_is_acknowledged_already_is_dropped() -> None:
    held = trackers()
    held.ack_grouping.acknowledge([MessageId(1, 0), MessageId(1, 1, -1, 0, 3)], Generation(), 0.0)
    outcome = take(held, incoming(0), batch(1, 3))
    assert wanted(outcome) == [0b110]
    assert outcome.returned == 2


def test_a_reader_that_was_sent_back_gets_again_what_it_has_read_and_so_acknowledged() -> None:
    held = trackers(start=StartMessageId(MessageId(1, 2), durable=False))
    held.start.opened(MessageId(1, 2))
    held.start.subscribe(0)
    held.ack_grouping.acknowledge(
        [MessageId(1, 0), *(MessageId(1, 1, -1, index, 3) for index in (0, 1))], Generation(), 0.0
    )
    outcome = take(held, incoming(0), batch(1, 3), batch(2, 2), is_reader=True)
    assert wanted(outcome) == [1, 0b111, 0b11]
    assert outcome.returned == 0


def test_a_consumer_whose_subscription_is_not_durable_does_not_get_again_what_it_has_acknowledged() -> None:
    held = trackers(start=StartMessageId(MessageId(1, 2), durable=False))
    held.ack_grouping.acknowledge([MessageId(1, 3), MessageId(1, 4, -1, 1, 3)], Generation(), 0.0)
    outcome = take(held, incoming(3), batch(4, 3))
    assert wanted(outcome) == [0b101]
    assert outcome.returned == 2


@pytest.mark.parametrize(
    ("start", "inclusive", "left"),
    [
        (MessageId(1, 0), False, []),
        (MessageId(1, 0), True, [0b111]),
        (MessageId(1, 0, -1, 1, 3), False, [0b100]),
        (MessageId(1, 0, -1, 1, 3), True, [0b110]),
        (MessageId(1, 0, -1, 0, 3), True, [0b111]),
        (MessageId(1, 9), False, [0b111]),
    ],
)
def test_what_comes_before_the_start_is_left_out(start: MessageId, inclusive: bool, left: list[int]) -> None:  # noqa: FBT001 - a case
    held = trackers(start=StartMessageId(start, inclusive=inclusive, durable=False))
    outcome = take(held, batch(0, 3))
    assert wanted(outcome) == left
    assert outcome.returned == 3 - sum(one.bit_count() for one in left)


def test_a_plain_message_before_the_start_is_left_out() -> None:
    held = trackers(start=StartMessageId(MessageId(1, 0), durable=False))
    assert take(held, incoming(0)).returned == 1


def test_chunks_become_one_message_and_all_but_one_give_their_permit_back() -> None:
    held = trackers()
    outcome = take(held, chunk(0, 0), chunk(1, 1))
    (one,) = outcome.deliver
    assert (one.payload, one.messages, outcome.arrived, outcome.returned) == (b"payload" * 2, 1, 2, 1)
    assert held.chunks.chunks_of(one.message_id) == ((1, 0), (1, 1))


def test_repeated_chunks_are_acknowledged_and_those_that_contradict_each_other_refused() -> None:
    outcome = take(trackers(), chunk(0, 0), chunk(1, 0), chunk(3, 2, of=4, total=28))
    assert outcome.acknowledge == [MessageId(1, 0)]
    assert outcome.corrupt == [((1, 1), Fault.UncompressedSizeCorruption), ((1, 3), Fault.UncompressedSizeCorruption)]


def test_a_chunk_that_is_of_no_use_yet_is_set_aside_until_it_comes_again() -> None:
    held = trackers()
    outcome = take(held, chunk(5, 1))
    assert (outcome.arrived, outcome.returned, outcome.deliver, outcome.acknowledge) == (1, 1, [], [])
    assert held.negative_acks.next_due() == 10.0
    assert take(held, chunk(4, 0), chunk(5, 1)).deliver
    assert held.negative_acks.next_due() is None


def test_the_last_chunk_of_a_message_that_lacks_something_is_told_of_and_no_other_chunk() -> None:
    held = trackers()
    assert take(held, chunk(5, 1, of=3, total=21)).unfinished == []
    (one,) = take(held, chunk(6, 2, of=3, total=21)).unfinished
    assert (one.entry, one.uuid) == ((1, 6), "u")
    assert take(held, chunk(7, 0), chunk(8, 1)).unfinished == []
    assert take(held, chunk(9, 2, of=4, total=28), chunk(9, 3, of=4, total=1)).unfinished == []


def test_how_far_the_broker_is_counts_all_but_what_it_will_send_again() -> None:
    held = trackers(ordered=True)
    assert take(held, incoming(0), chunk(1, 0)).passed == (1, 1)
    assert take(held, incoming(2, 1, payload=b"")).passed == (1, 2)
    held.negative_acks.request_all()
    assert take(held, incoming(3, epoch=0), incoming(4, 1, payload=b"", epoch=0)).passed is None


def test_a_corrupt_chunk_is_refused() -> None:
    outcome = take(trackers(), chunk(0, 0, broken=True))
    assert (outcome.corrupt, outcome.returned) == ([((1, 0), Fault.ChecksumMismatch)], 1)


def test_the_number_of_redeliveries_decides_where_an_entry_goes() -> None:
    held = trackers(max_redeliver_count=2)
    outcome = take(held, incoming(0, count=1), incoming(1, count=2), incoming(2, count=3), incoming(2, count=4))
    assert [one.message_id.entry_id for one in outcome.deliver] == [0, 1]
    assert [one.message_id.entry_id for one in outcome.dead] == [2], "the second time it is on its way already"
    assert outcome.returned == 2
