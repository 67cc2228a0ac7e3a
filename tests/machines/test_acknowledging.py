from typing import Any

import pytest
from consumer_bench import LOST, Subscriber, acknowledge, incoming, plain, ready

from pulsar_actors.exceptions import BrokerRefusal, Timeout
from pulsar_actors.machines.binding_events import Detached, RetryDue
from pulsar_actors.machines.consumer_events import (
    Acked,
    Acknowledge,
    AcknowledgeUpTo,
    AcksAnswered,
    AcksDue,
    AskToAck,
    ReceiptsDue,
    Refuse,
    SweepDue,
    WantedAgain,
)

NO = BrokerRefusal("MetadataError", "no")


def asked(driven: Subscriber) -> AskToAck:
    (ask,) = driven.did(AskToAck)
    return ask


def sent(driven: Subscriber, *entries: int, token: str) -> AskToAck:
    driven.receive(*map(incoming, entries))
    acknowledge(driven, *map(plain, entries), token=token)
    driven.fire(AcksDue)
    return asked(driven)


@pytest.mark.parametrize("error", [None, NO])
def test_who_waits_for_a_receipt_hears_what_the_broker_says(error: BrokerRefusal | None) -> None:
    driven = ready(receipts=True)
    ask = sent(driven, 1, token="a")
    assert driven.did(Acked) == []
    driven.tell(AcksAnswered(ask.ack, error))
    assert driven.did(Acked) == [Acked(("a",), error)]


@pytest.mark.parametrize("kind", [Acknowledge, AcknowledgeUpTo])
def test_an_acknowledgement_that_a_caller_waits_for_leaves_at_once_and_others_with_it(kind: Any) -> None:
    driven = ready(receipts=True)
    driven.receive(incoming(1), incoming(2))
    acknowledge(driven, plain(1), token="a")
    assert driven.timers[AcksDue].delay == pytest.approx(0.1)
    one = (
        Acknowledge(driven.generation, (plain(2),), ("b",), at_once=True)
        if kind is Acknowledge
        else AcknowledgeUpTo(driven.generation, plain(2), "b", at_once=True)
    )
    driven.tell(one)
    assert driven.timers[AcksDue].delay == 0.0
    driven.fire(AcksDue)
    for ask in driven.did(AskToAck):
        driven.tell(AcksAnswered(ask.ack, None))
    assert driven.did(Acked)


def test_without_a_binding_a_receipt_is_not_waited_for_longer_than_was_agreed_and_its_acknowledgement_leaves() -> None:
    driven = ready(receipts=True)
    driven.receive(incoming(1))
    driven.tell(Detached(1, LOST))
    acknowledge(driven, plain(1), token="a")
    assert driven.timers[ReceiptsDue].delay == 30.0
    driven.fire(ReceiptsDue)
    (acked,) = driven.did(Acked)
    assert (acked.tokens, type(acked.error)) == (("a",), Timeout)
    assert "still on its way: the consumer of t is WAITING; the last failure was: reset" in str(acked.error)
    driven.fire(RetryDue)
    driven.subscribe()
    ask = asked(driven)
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.did(Acked) == [], "was told twice"


def test_what_went_wrong_while_a_receipt_was_waited_for_is_named_until_all_have_theirs() -> None:
    driven = ready(receipts=True)
    sent(driven, 1, token="a")
    driven.tell(Detached(1, LOST))
    driven.fire(RetryDue)
    driven.subscribe()
    driven.fire(ReceiptsDue)
    (late,) = driven.did(Acked)
    assert str(late.error).endswith("the consumer of t is READY; the last failure was: reset")
    ask = sent(driven, 2, token="b")
    driven.tell(AcksAnswered(ask.ack, None))
    sent(driven, 3, token="c")
    driven.fire(ReceiptsDue)
    (late,) = driven.did(Acked)
    assert str(late.error).endswith("the consumer of t is READY")


def test_one_timer_serves_all_who_wait_for_receipts() -> None:
    driven = ready(receipts=True)
    ask = sent(driven, 1, token="a")
    driven.now += 10
    sent(driven, 2, token="b")
    driven.tell(AcksAnswered(ask.ack, None))
    assert driven.timers[ReceiptsDue].delay == 30.0
    driven.now += 19.9
    driven.tell(driven.timers[ReceiptsDue].event)
    assert driven.did(Acked) == []
    driven.fire(ReceiptsDue)
    assert [one.tokens for one in driven.did(Acked)] == [("b",)]


def test_what_is_asked_for_again_is_told_by_its_reason() -> None:
    driven = ready(ack_timeout=5.0)
    driven.receive(incoming(1), incoming(2))
    driven.tell(Refuse(driven.generation, ((plain(1), 0),)))
    driven.fire(SweepDue)
    assert driven.did(WantedAgain) == [WantedAgain(((1, 1),), ())]
