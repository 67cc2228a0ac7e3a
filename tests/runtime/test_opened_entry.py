import pytest

from pulsar_actors.machines.incoming_entries import UNDECRYPTABLE, DeliveredEntry
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.opened_entry import EntryContents, OpenedEntry, open_decrypted, open_entry
from pulsar_actors.wire import errors
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType
from tests.support.entries_in_hand import batch, single

GENERATION = Generation(3, 2, 1)

CODECS = [CompressionType.LZ4, CompressionType.ZLIB, CompressionType.ZSTD, CompressionType.SNAPPY]


def messages(found: EntryContents) -> list[tuple[bytes, int, MessageId]]:
    places = zip(found.stored, found.payloads, found.indexes, strict=True)
    assert {type(payload) for payload in found.payloads} <= {bytes}
    return [(payload, index, found.entry.id_of(index)) for _, payload, index in places]


def shared(delivery: DeliveredEntry) -> OpenedEntry:
    return OpenedEntry(delivery, GENERATION, "the topic", int)


def contents(delivery: DeliveredEntry, limit: int = 1000, *, compacted: bool = False) -> EntryContents:
    return open_entry(delivery, shared(delivery), limit, compacted=compacted)


def test_an_entry_that_is_no_batch_is_one_message_with_the_entrys_id() -> None:
    found = contents(single(7, b"alone"))
    assert messages(found) == [(b"alone", 0, MessageId(1, 7))]
    assert (list(found.indexes), found.skipped) == ([0], 0)


def test_the_messages_of_a_batch_have_ids_of_their_own() -> None:
    found = contents(batch(7, b"a", b"b"))
    assert messages(found) == [
        (b"a", 0, MessageId(1, 7, batch_index=0, batch_size=2)),
        (b"b", 1, MessageId(1, 7, batch_index=1, batch_size=2)),
    ]
    assert (list(found.indexes), found.skipped) == ([0, 1], 0)


def test_a_batch_of_one_is_a_batch() -> None:
    assert messages(contents(batch(7, b"a"))) == [(b"a", 0, MessageId(1, 7, batch_index=0, batch_size=1))]


def test_messages_that_are_not_wanted_are_not_made_and_are_no_loss() -> None:
    found = contents(batch(7, b"a", b"b", b"c", wanted=0b101))
    assert [(payload, index) for payload, index, _ in messages(found)] == [(b"a", 0), (b"c", 2)]
    assert found.skipped == 0


def test_what_was_compacted_out_is_skipped_for_those_who_read_the_compacted_topic_only() -> None:
    delivery = batch(7, b"a", b"b", b"c", wanted=0b011, compacted_out=(1, 2))
    found = contents(delivery, compacted=True)
    assert [payload for payload, *_ in messages(found)] == [b"a"]
    assert (list(found.indexes), found.skipped) == ([0], 1)
    whole = contents(batch(7, b"a", b"b", compacted_out=(1,)), compacted=True)
    assert ([payload for payload, *_ in messages(whole)], whole.skipped) == ([b"a"], 1)
    assert len(messages(contents(delivery))) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_squeezed_is_inflated(codec: "CompressionType.ValueType") -> None:
    assert messages(contents(single(7, b"squeezed" * 10, compression=codec)))[0][0] == b"squeezed" * 10
    assert len(messages(contents(batch(7, b"a", b"b", compression=codec)))) == 2


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_squeezed_may_inflate_to_more_than_the_brokers_limit(codec: "CompressionType.ValueType") -> None:
    size = 20 * 2**20  # of equal bytes, which every codec squeezes as far as it can
    (payload,) = contents(single(7, bytes(size), compression=codec), limit=100).payloads
    assert len(payload) == size


@pytest.mark.parametrize("declared", [2**31 - 1, 50_000_000])
def test_what_says_that_it_inflates_to_more_than_any_codec_can_is_refused_before_it_is_tried(declared: int) -> None:
    with pytest.raises(errors.UncompressedSizeCorruption):
        contents(single(7, b"lie", compression=CompressionType.LZ4, uncompressed_size=declared))


def test_a_damaged_entry_has_no_messages() -> None:
    with pytest.raises(errors.ChecksumMismatch):
        contents(single(7, broken=True))


def test_a_batch_that_is_not_what_it_says_has_no_messages() -> None:
    with pytest.raises(errors.MalformedBatch):
        contents(batch(7, b"a", b"b", num_messages_in_batch=3))
    assert issubclass(errors.MalformedBatch, errors.EntryError)


def test_a_message_in_chunks_is_not_verified_twice() -> None:
    last = single(9, b"last chunk", broken=True, num_chunks_from_msg=2, chunk_id=1)
    whole = last._replace(other_payload=b"all of it")
    assert messages(contents(whole))[0][0] == b"all of it"


def test_what_is_delivered_encrypted_is_one_message_as_it_was_stored() -> None:
    stored = batch(7, b"a", b"b", compression=CompressionType.ZLIB)._replace(data_key=UNDECRYPTABLE)
    found = contents(stored)
    assert messages(found) == [(stored.payload, 0, MessageId(1, 7))]
    assert (found.skipped, found.entry.size, found.entry.is_undecryptable) == (1, 0, True)


def test_what_is_delivered_encrypted_is_verified() -> None:
    with pytest.raises(errors.ChecksumMismatch):
        contents(single(7, broken=True)._replace(data_key=UNDECRYPTABLE))


def test_what_is_decrypted_later_is_split_as_what_is_decrypted_at_once() -> None:
    stored = batch(7, b"a", b"b")
    found = open_decrypted(shared(stored._replace(data_key=UNDECRYPTABLE)), stored.payload, "a key", 1000)
    assert messages(found) == messages(contents(stored))
    assert (found.entry.data_key, found.entry.is_undecryptable) == ("a key", False)


def test_what_messages_share_is_what_the_entry_says() -> None:
    opened = shared(batch(7, b"a", b"b"))
    assert (opened.message_id, opened.size, opened.redelivery_count) == (MessageId(1, 7), 2, 2)
    assert (opened.topic, opened.generation, opened.decode(b"5")) == ("the topic", GENERATION, 5)
    assert opened.metadata.producer_name == "p"
