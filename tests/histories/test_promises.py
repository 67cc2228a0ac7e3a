"""Each promise is kept by a history without faults, and found broken in one that differs in a single fact."""

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.enums import ConsumerType
from tests.histories.history import (
    Acknowledged,
    Closed,
    EndedTransaction,
    History,
    Operation,
    Outcome,
    Place,
    Sent,
    Stored,
    Subscribed,
)
from tests.histories.promises import PROMISES, check

TOPIC = "persistent://public/default/topic"
OTHER = "persistent://public/default/other"


class Story:
    """Writes a history. All of it is in order unless a test says otherwise."""

    def __init__(self) -> None:
        self.history = History()
        self.sent: list[Sent] = []

    def done(self, what: Any, outcome: Outcome | None = Outcome.DONE, /, **facts: Any) -> Any:
        operation: Operation = self.history.begin(what, **facts)
        if outcome is not None:
            self.history.end(operation, outcome)
        return operation

    def send(self, number: int, outcome: Outcome | None = Outcome.DONE, *, stored: int = 1, **facts: Any) -> Sent:
        facts = {"producer": "p", "topic": TOPIC, "line": "p", "content": b"%d" % number, **facts}
        sent: Sent = self.done(Sent, outcome, **facts)
        for _ in range(stored):
            self.store(sent)
        return sent

    def store(self, sent: Sent, topic: str | None = None) -> None:
        sent.place = Place(1, len(self.history.stored), -1)
        self.history.stored.append(Stored(topic or sent.topic, sent.place, sent.content))

    def subscribe(self, consumer: str = "c", kind: Any = ConsumerType.Exclusive, **facts: Any) -> Subscribed:
        facts = {"consumer": consumer, "topics": (TOPIC,), "subscription": "s", "kind": kind, **facts}
        subscribed: Subscribed = self.done(Subscribed, **facts)
        return subscribed

    def receive(self, subscribed: Subscribed, *messages: Sent) -> None:
        for sent in messages:
            assert sent.place is not None
            self.history.receive(subscribed, sent.topic, sent.place, sent.content)

    def acknowledge(self, sent: Sent, outcome: Outcome | None = Outcome.DONE, **facts: Any) -> None:
        facts = {"consumer": "c", "subscription": "s", "topic": sent.topic, "place": sent.place, **facts}
        acknowledged = self.done(Acknowledged, outcome, **facts)
        if outcome is None:
            self.history.returned(acknowledged)

    def end(self, transaction: str = "t", outcome: Outcome = Outcome.DONE, *, commit: bool = True) -> None:
        self.done(EndedTransaction, outcome, transaction=transaction, commit=commit)

    def judge(self, *left: Sent) -> None:
        """Let the judge receive what is left."""
        self.receive(self.subscribe("judge"), *left)

    def broken(self) -> set[str]:
        return {text.partition(":")[0] for text in check(self.history)}


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_history_without_faults_breaks_no_promise(story: Story) -> None:
    first, second = story.send(1, transaction="t"), story.send(2, key="k")
    story.end()
    consumer = story.subscribe()
    story.receive(consumer, first, second)
    story.acknowledge(first)
    story.done(Closed, consumer="c")
    story.judge(second)
    reader = story.subscribe("reader", None, subscription="r")
    story.receive(reader, first, second)
    assert check(story.history) == []


def never_ends(story: Story) -> None:
    story.send(1, None)


def ends_twice(story: Story) -> None:
    story.history.end(story.send(1), Outcome.DONE)


def stored_and_never_sent(story: Story) -> None:
    story.history.stored.append(Stored(TOPIC, Place(1, 0, -1), b"?"))


def stored_on_another_topic(story: Story) -> None:
    story.store(story.send(1, Outcome.UNKNOWN, stored=0), OTHER)


def received_as_something_else(story: Story) -> None:
    sent = story.send(1)
    story.history.receive(story.subscribe(), TOPIC, sent.place or Place(0, 0, 0), b"2")


def received_and_not_stored(story: Story) -> None:
    story.history.receive(story.subscribe(), TOPIC, Place(9, 9, -1), story.send(1).content)


def confirmed_and_not_stored(story: Story) -> None:
    story.send(1, stored=0)


def confirmed_at_another_place(story: Story) -> None:
    story.send(1).place = Place(7, 7, -1)


def refused_and_stored(story: Story) -> None:
    story.send(1, Outcome.REFUSED)


def stored_twice(story: Story) -> None:
    story.send(1, stored=2, once=True)


def stored_twice_in_a_transaction(story: Story) -> None:
    story.send(1, stored=2, transaction="t")
    story.end()


def stored_in_another_order(story: Story) -> None:
    first = story.send(1, stored=0)
    story.send(2)
    story.store(first)


def received_in_another_order(story: Story) -> None:
    first, second = story.send(1), story.send(2)
    story.receive(story.subscribe(), second, first)


def received_in_another_order_by_two(story: Story) -> None:
    first, second = story.send(1), story.send(2)
    story.receive(story.subscribe("c", ConsumerType.Failover), second)
    story.receive(story.subscribe("d", ConsumerType.Failover), first)


def received_in_another_order_of_a_key(story: Story) -> None:
    first, _, third = story.send(1, key="a"), story.send(2, key="b"), story.send(3, key="a")
    story.receive(story.subscribe("c", ConsumerType.KeyShared), third, first)


def never_received(story: Story) -> None:
    story.send(1)
    second = story.send(2)
    story.receive(story.subscribe(), second)
    story.judge()
    story.acknowledge(second)


def received_after_its_acknowledgement(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent)
    story.judge(sent)


def received_after_an_acknowledgement_of_a_later_one(story: Story) -> None:
    first, second = story.send(1), story.send(2)
    story.receive(story.subscribe(), first, second)
    story.acknowledge(second, cumulative=True)
    story.judge(first)


def received_after_the_close_of_who_acknowledged_it(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent, None)
    story.done(Closed, consumer="c")
    story.judge(sent)


def received_after_the_commit_of_its_acknowledgement(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent, transaction="t")
    story.end()
    story.judge(sent)


def received_after_a_commit_that_followed_a_move(story: Story) -> None:
    story.history.disturb("move")
    story.history.disturb("moved")
    received_after_the_commit_of_its_acknowledgement(story)


def received_after_a_commit_that_preceded_a_move(story: Story) -> None:
    received_after_the_commit_of_its_acknowledgement(story)
    story.history.disturb("move")
    story.history.disturb("moved")


def received_after_the_acknowledgement_of_its_batch(story: Story) -> None:
    batch = acknowledged_in_a_batch(story, 2)
    story.judge(batch[0])


def received_after_its_acknowledgement_by_index(story: Story) -> None:
    batch = acknowledged_in_a_batch(story, 1, by_index=True)
    story.judge(*batch)


def acknowledged_in_a_batch(story: Story, number: int, **facts: Any) -> list[Sent]:
    """Acknowledge so many of two messages, which are one batch."""
    batch = [story.send(1, stored=0), story.send(2, stored=0)]
    for index, sent in enumerate(batch):
        sent.place = Place(1, 0, index)
        story.history.stored.append(Stored(TOPIC, sent.place, sent.content))
    story.receive(story.subscribe(**facts), *batch)
    for sent in batch[:number]:
        story.acknowledge(sent)
    return batch


def gone_without_an_acknowledgement(story: Story) -> None:
    story.receive(story.subscribe(), story.send(1))
    story.judge()


def gone_with_a_refused_acknowledgement(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent, Outcome.REFUSED)
    story.judge()


def visible_after_an_abort(story: Story) -> None:
    story.send(1, transaction="t")
    story.end(commit=False)


def visible_without_an_end(story: Story) -> None:
    story.send(1, transaction="t")


def acknowledged_after_an_abort(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent, transaction="t")
    story.end(commit=False)
    story.judge()


def half_of_it_visible(story: Story) -> None:
    story.send(1, transaction="t")
    story.send(2, transaction="t", topic=OTHER, stored=0)
    story.end(outcome=Outcome.UNKNOWN)


def visible_and_not_acknowledged(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.send(2, transaction="t", topic=OTHER)
    story.acknowledge(sent, transaction="t")
    story.end(outcome=Outcome.UNKNOWN)
    story.judge(sent)


def read_with_a_gap(story: Story) -> None:
    first, _, third = (story.send(number) for number in range(3))
    story.receive(story.subscribe("reader", None), first, third)


def repeated_for_no_reason(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent, sent)


def repeated_by_one_that_takes_over_from_nobody(story: Story) -> None:
    first = story.subscribe("first", ConsumerType.Failover)
    second = story.subscribe("second", ConsumerType.Failover)
    sent = story.send(1)
    story.receive(first, sent)
    story.receive(second, sent)


BROKEN: dict[str, list[Callable[[Story], None]]] = {
    "sends_end_once": [never_ends, ends_twice],
    "nothing_is_made_up": [
        stored_and_never_sent, stored_on_another_topic, received_as_something_else, received_and_not_stored,
    ],
    "confirmed_sends_are_stored": [confirmed_and_not_stored, confirmed_at_another_place],
    "refused_sends_are_not_stored": [refused_and_stored],
    "stored_once": [stored_twice, stored_twice_in_a_transaction],
    "senders_keep_their_order": [stored_in_another_order],
    "received_in_order": [
        received_in_another_order, received_in_another_order_by_two, received_in_another_order_of_a_key,
    ],
    "everything_is_received": [never_received],
    "acknowledged_stays_acknowledged": [
        received_after_its_acknowledgement, received_after_an_acknowledgement_of_a_later_one,
        received_after_the_close_of_who_acknowledged_it, received_after_the_commit_of_its_acknowledgement,
        received_after_a_commit_that_followed_a_move, received_after_a_commit_that_preceded_a_move,
        received_after_the_acknowledgement_of_its_batch, received_after_its_acknowledgement_by_index,
    ],
    "nothing_is_acknowledged_by_itself": [gone_without_an_acknowledgement, gone_with_a_refused_acknowledgement],
    "transactions_are_whole": [
        visible_after_an_abort, visible_without_an_end, acknowledged_after_an_abort, half_of_it_visible,
        visible_and_not_acknowledged,
    ],
    "readers_miss_nothing": [read_with_a_gap],
    "repeats_have_a_reason": [repeated_for_no_reason, repeated_by_one_that_takes_over_from_nobody],
}  # fmt: skip


def test_every_promise_has_a_history_that_breaks_it() -> None:
    assert list(BROKEN) == [promise.__name__ for promise in PROMISES]


@pytest.mark.parametrize(
    ("promise", "tell"),
    [(name, tell) for name, tells in BROKEN.items() for tell in tells],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_broken_promise_is_found(story: Story, promise: str, tell: Callable[[Story], None]) -> None:
    tell(story)
    assert promise in story.broken()


def a_seek(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent)
    story.history.disturb("seek", "s")
    story.judge(sent)


def an_order_that_a_seek_has_changed(story: Story) -> None:
    first, second = story.send(1), story.send(2)
    consumer = story.subscribe()
    story.receive(consumer, second)
    story.history.disturb("seek", "s")
    story.receive(consumer, first)


def a_repetition_after_a_reconnect(story: Story) -> None:
    sent = story.send(1)
    consumer = story.subscribe()
    story.receive(consumer, sent)
    story.history.disturb("fault")
    story.receive(consumer, sent)


def a_message_that_was_queued_when_another_took_over(story: Story) -> None:
    first = story.subscribe("first", ConsumerType.Failover)
    sent = story.send(1)
    second = story.subscribe("second", ConsumerType.Failover)
    story.receive(first, sent)
    story.receive(second, sent)


def an_order_among_keys(story: Story) -> None:
    first, second = story.send(1, key="a"), story.send(2, key="b")
    story.receive(story.subscribe(kind=ConsumerType.KeyShared), second, first)


def a_commit_that_was_asked_for_again(story: Story) -> None:
    story.send(1, transaction="t")
    story.end(outcome=Outcome.UNKNOWN)
    story.end()


def a_batch_of_which_a_part_was_acknowledged(story: Story) -> None:
    story.judge(*acknowledged_in_a_batch(story, 1))


def a_batch_of_which_a_part_was_acknowledged_in_a_transaction(story: Story) -> None:
    first, second = acknowledged_in_a_batch(story, 1)
    story.acknowledge(second, transaction="t")
    story.end()
    story.judge(first)


def a_batch_that_came_again_before_its_rest_was_acknowledged(story: Story) -> None:
    first, second = acknowledged_in_a_batch(story, 1)
    story.history.disturb("negative acknowledgement", "s")
    story.acknowledge(second)
    story.judge(first, second)


def an_acknowledgement_during_the_close(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    closed = story.done(Closed, None, consumer="c")
    story.acknowledge(sent, None)
    story.history.end(closed, Outcome.DONE)
    story.judge(sent)


def an_acknowledgement_that_its_broker_has_forgotten(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent)
    story.history.disturb("amnesia")
    story.judge(sent)


def a_commit_that_met_a_move(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.send(2, transaction="t", topic=OTHER)
    story.send(3, transaction="t", stored=0)
    story.acknowledge(sent, transaction="t")
    commit = story.done(EndedTransaction, None, transaction="t", commit=True)
    story.history.disturb("move")
    story.history.end(commit, Outcome.DONE)
    story.history.disturb("moved")
    story.judge(sent)


def an_acknowledgement_that_reached_the_broker_after_the_abort(story: Story) -> None:
    sent = story.send(1)
    story.receive(story.subscribe(), sent)
    story.acknowledge(sent, Outcome.UNKNOWN, transaction="t")
    story.end(commit=False)
    story.judge()


def a_repeated_message_without_deduplication(story: Story) -> None:
    story.send(1, stored=2)


@pytest.mark.parametrize(
    "tell",
    [
        a_seek, an_order_that_a_seek_has_changed,
        a_repetition_after_a_reconnect, a_message_that_was_queued_when_another_took_over, an_order_among_keys,
        a_commit_that_was_asked_for_again, a_batch_of_which_a_part_was_acknowledged,
        a_batch_of_which_a_part_was_acknowledged_in_a_transaction,
        a_batch_that_came_again_before_its_rest_was_acknowledged, an_acknowledgement_during_the_close,
        an_acknowledgement_that_its_broker_has_forgotten, a_commit_that_met_a_move,
        an_acknowledgement_that_reached_the_broker_after_the_abort, a_repeated_message_without_deduplication,
    ],
)  # fmt: skip
def test_what_has_a_reason_breaks_no_promise(story: Story, tell: Callable[[Story], None]) -> None:
    tell(story)
    assert check(story.history) == []
