import copy
import json
import pickle
import time
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.send_queue import SentTo
from pulsar_actors.wire.message_id import MessageId as WireMessageId

TOPIC = "persistent://public/default/t"
PLACES = list(product((-1, 2), (3, 2**63 - 1), (0, 5), (-1, 1)))
KEPT = (Path(__file__).parents[1] / "vectors" / "message_ids.jsonl").read_text().splitlines()[1:]


@pytest.mark.parametrize("place", [(), (1,), *PLACES])
@pytest.mark.parametrize("ask", ["partition", "ledger_id", "entry_id", "batch_index", "serialize", "__str__"])
def test_an_id_answers_as_the_official_one_does(place: tuple[int, ...], ask: str) -> None:
    assert getattr(MessageId(*place), ask)() == getattr(pulsar.MessageId(*place), ask)()


@pytest.mark.parametrize("compare", [eq, ne, lt, le, gt, ge], ids=lambda compare: compare.__name__)
def test_ids_compare_as_the_official_ones_do(compare: Any) -> None:
    for one, other in product(PLACES, PLACES):
        if one[0] != other[0] and one[1:] == other[1:]:
            continue  # the official client puts neither first, though it holds them for different
        ours = compare(MessageId(*one), MessageId(*other))
        assert ours == compare(pulsar.MessageId(*one), pulsar.MessageId(*other)), (one, other)


@pytest.mark.parametrize("end", ["earliest", "latest"])
def test_the_ends_of_a_topic_are_those_of_the_official_client(end: str) -> None:
    ours, official = getattr(MessageId, end), getattr(pulsar.MessageId, end)
    assert (str(ours), ours.serialize()) == (str(official), official.serialize())


def test_every_id_lies_between_the_ends_of_the_topic() -> None:
    ids = [MessageId(*place) for place in PLACES]
    assert MessageId.earliest < min(ids)
    assert max(ids) < MessageId.latest or max(ids).ledger_id() == MessageId.latest.ledger_id()


def test_ids_that_the_official_client_wrote_are_read_and_written_the_same() -> None:
    assert KEPT
    for line in map(json.loads, KEPT):
        data = bytes.fromhex(line["serialised"])
        kept = MessageId.deserialize(data)
        place = (kept.ledger_id(), kept.entry_id(), kept.partition(), kept.batch_index())
        assert place == (line["ledger"], line["entry"], line["partition"], line["batch_index"])
        assert kept.serialize() == data


def test_ids_that_differ_in_the_partition_alone_have_an_order() -> None:
    assert MessageId(0, 1, 2, 3) < MessageId(1, 1, 2, 3)


def test_equal_ids_are_one_key_in_a_dict() -> None:
    assert len({MessageId(1, 2, 3, 4), MessageId(1, 2, 3, 4), MessageId(1, 2, 3, 5)}) == 2


def test_an_id_is_not_equal_to_anything_else_and_has_no_order_with_it() -> None:
    assert MessageId(1, 2, 3, 4) != WireMessageId(2, 3, 1, 4)
    for compare in (lt, le, gt, ge):
        with pytest.raises(TypeError):
            compare(MessageId(1, 2, 3, 4), 5)


def test_the_topic_travels_with_an_id_and_tells_none_apart() -> None:
    plain = MessageId(1, 2, 3, 4)
    of_topic = MessageId.deserialize(plain.serialize(), topic=TOPIC)
    assert (plain.topic_name(), of_topic.topic_name()) == (None, TOPIC)
    assert plain == of_topic


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own
def test_an_id_can_be_copied_and_pickled_with_all_that_it_knows(twin_of: Any) -> None:
    whole = new_message_id(WireMessageId(1, 2, 3, 4, 5, WireMessageId(1, 1)), TOPIC)
    twin = twin_of(whole)
    assert (twin, twin.topic_name(), tuple(twin.wire)) == (whole, TOPIC, tuple(whole.wire))


def test_a_repr_says_which_number_is_which() -> None:
    assert repr(MessageId(1, 2, 3, 4)) == "MessageId(partition=1, ledger_id=2, entry_id=3, batch_index=4)"


@pytest.mark.parametrize("data", [b"no id", b"", "text", None])
def test_bytes_that_are_no_id_are_refused(data: Any) -> None:
    with pytest.raises((InvalidArgument, TypeError)) as refused:
        MessageId.deserialize(data)
    assert isinstance(refused.value, ValueError)


def test_a_wrapped_id_is_itself_as_programs_for_the_official_client_wrap_what_send_returns() -> None:
    message_id = MessageId(1, 2, 3, 4)
    assert MessageId.wrap(message_id) is message_id


@pytest.mark.parametrize("value", [WireMessageId(1, 2), (1, 2), b"\x08\x01\x10\x02", None])
def test_nothing_but_an_id_is_wrapped(value: Any) -> None:
    with pytest.raises(TypeError, match="msg_id must be a MessageId, not "):
        MessageId.wrap(value)


def test_a_topic_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        MessageId.deserialize(MessageId(1, 2, 3, 4).serialize(), topic="a/b")


def ids_of_batch(size: int) -> list[MessageId]:
    """Return the ids that the callbacks of a batch are called with."""
    ids: list[MessageId] = []
    callbacks = SendCallbacks(TOPIC, 2, time.monotonic)
    callbacks([([lambda _, message_id: ids.append(message_id)] * size, SentTo(((3, 5),), batched=True, size=9))])
    return ids


@pytest.mark.parametrize("asked_first", ["wire", "batch_index", "__str__", "__hash__", "serialize"])
def test_the_ids_of_a_batch_are_those_of_its_messages(asked_first: str) -> None:
    made = ids_of_batch(3)
    whole = [new_message_id(WireMessageId(3, 5, 2, index, 3), TOPIC) for index in range(3)]
    for one, other in zip(made, whole, strict=True):
        asked = [getattr(each, asked_first) for each in (one, other)]
        assert asked[0] == asked[1] or asked[0]() == asked[1]()
    assert [(each, each.wire, each.topic_name()) for each in made] == [(each, each.wire, TOPIC) for each in whole]


def test_an_id_of_a_batch_that_nobody_has_asked_yet_can_be_copied_and_pickled() -> None:
    one, other, _ = ids_of_batch(3)
    assert pickle.loads(pickle.dumps(one)).wire == WireMessageId(3, 5, 2, 0, 3)  # noqa: S301
    assert copy.copy(other).wire == WireMessageId(3, 5, 2, 1, 3)
    with pytest.raises(AttributeError, match="no attribute 'wired'"):
        _ = one.wired  # type: ignore[attr-defined]
