"""What a client and its broker promise, as checks of a history: each returns the places where it was broken.

They know nothing of clients and brokers but what callers did and were told, and what a reader found in the end. So the
simulation, the embedded broker and an Apache Pulsar are held against the same promises, and so is any client.

    broken = check(history)
    assert not broken, "\\n".join(broken)

Which of them hold depends on what was asked for: an order needs one caller for a consumer, and repeated messages are
only dropped for a producer that the broker knows by its name. The facts in the history say so.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from pulsar_actors.client.enums import ConsumerType
from tests.histories.history import (
    Acknowledged,
    Closed,
    EndedTransaction,
    History,
    Outcome,
    Place,
    Received,
    Sent,
    Stored,
    Subscribed,
)

JUDGE = "judge"
"""The consumer that takes what is left of each subscription, when all others have closed."""

_PARTITION = re.compile(r"-partition-\d+$")
_REPEATING = ("fault", "amnesia", "negative acknowledgement", "redelivery", "seek")
_FEW = 5


class Seat(NamedTuple):
    """One message of one subscription."""

    subscription: str
    topic: str
    place: Place


class Found:
    """The facts of a history, put in order once for all promises."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sent = {sent.content: sent for sent in history.of(Sent)}
        self.subscribed = {each.consumer: each for each in history.of(Subscribed)}

    @cached_property
    def stored(self) -> dict[bytes, list[Stored]]:
        """The messages in the end, by content."""
        stored: dict[bytes, list[Stored]] = defaultdict(list)
        for each in self.history.stored:
            stored[each.content].append(each)
        return stored

    @cached_property
    def by_place(self) -> dict[tuple[str, Place], bytes]:
        return {(each.topic, each.place): each.content for each in self.history.stored}

    @cached_property
    def of_topic(self) -> dict[str, list[Stored]]:
        """The messages in the end, by topic, in their order."""
        topics: dict[str, list[Stored]] = defaultdict(list)
        for each in self.history.stored:
            topics[each.topic].append(each)
        return topics

    @cached_property
    def of_subscription(self) -> dict[str, list[Received]]:
        received: dict[str, list[Received]] = defaultdict(list)
        for each in self.history.received:
            if self.subscribed[each.consumer].kind is not None:
                received[each.subscription].append(each)
        return received

    @cached_property
    def ends(self) -> dict[str, list[EndedTransaction]]:
        """The ends that were asked for, by transaction: after an unknown outcome there may be more."""
        ends: dict[str, list[EndedTransaction]] = defaultdict(list)
        for each in self.history.of(EndedTransaction):
            ends[each.transaction].append(each)
        return ends

    @cached_property
    def of_transaction(self) -> dict[str, list[Sent]]:
        sent: dict[str, list[Sent]] = defaultdict(list)
        for each in self.history.of(Sent):
            if each.transaction is not None:
                sent[each.transaction].append(each)
        return sent

    @cached_property
    def acknowledged(self) -> dict[Seat, list[Acknowledged]]:
        """The acknowledgements that may have counted, by message; cumulative ones at each that they cover."""
        found: dict[Seat, list[Acknowledged]] = defaultdict(list)
        for each in self.history.of(Acknowledged):
            if self.may_count(each):
                for place in self._covered(each):
                    found[Seat(each.subscription, each.topic, place)].append(each)
        return found

    @cached_property
    def left(self) -> dict[str, set[Seat]]:
        """What the judge received, by subscription; only of those that it subscribed to."""
        left = {each.subscription: set[Seat]() for each in self.history.of(Subscribed) if _is_judge(each.consumer)}
        for each in self.history.received:
            if _is_judge(each.consumer):
                left[each.subscription].add(Seat(each.subscription, each.topic, each.place))
        return left

    @cached_property
    def given_back(self) -> set[str]:
        """The subscriptions to which a transaction has given messages back."""
        return {
            each.subscription
            for each in self.history.of(Acknowledged)
            if each.transaction is not None and self.committed(each.transaction) is not True
        }

    def committed(self, transaction: str) -> bool | None:
        """Return whether a transaction must be visible, must not be, or either."""
        if self.met_a_move(transaction):
            return None
        outcomes = {(end.commit, end.outcome) for end in self.ends.get(transaction, ())}
        if (True, Outcome.DONE) in outcomes:
            return True
        if (False, Outcome.DONE) in outcomes:
            return False
        return None if {(True, Outcome.UNKNOWN), (True, None)} & outcomes else False

    def may_count(self, acknowledged: Acknowledged) -> bool:
        """Return whether an acknowledgement may keep a message from consumers.

        One that was on its way when its connection was lost may reach the broker after the abort of its transaction.
        The message is hidden then until another transaction ends.
        """
        if acknowledged.outcome is Outcome.REFUSED:
            return False
        is_plain, is_known = acknowledged.transaction is None, acknowledged.outcome is Outcome.DONE
        return is_plain or not is_known or self.committed(acknowledged.transaction) is not False

    def met_a_move(self, transaction: str) -> bool:
        """Return whether a transaction was ended while its broker moved topics.

        An Apache Pulsar may confirm a commit then and still lose it for one of its topics or subscriptions.
        """
        return any(
            end.began < over and (end.ended is None or end.ended > began)
            for end in self.ends.get(transaction, ())
            for began, over in self._moves
        )

    def confirmed_at(self, acknowledged: Acknowledged) -> int | None:
        """Return when a caller knew that an acknowledgement counts; None: never."""
        if acknowledged.transaction is not None:
            if self.met_a_move(acknowledged.transaction):
                return None
            ends = self.ends.get(acknowledged.transaction, ())
            return next((end.ended for end in ends if end.commit and end.outcome is Outcome.DONE), None)
        if acknowledged.outcome is Outcome.DONE:
            return acknowledged.ended
        closed, returned = self._closed.get(acknowledged.consumer), acknowledged.returned
        if (
            closed is None
            or returned is None
            or closed.began < returned
            or self.was_disturbed(("fault",), "", 0, closed.began)
        ):
            return None  # without a receipt, it may have been lost with a connection
        return closed.ended

    def is_whole(self, acknowledged: Acknowledged, place: Place) -> bool:
        """Return whether an acknowledgement counts for a place, and not only with that of the rest of its batch.

        A batch that comes again is not acknowledged before all of it is, once more. What is acknowledged in a
        transaction is not a part of the rest: the transaction may be aborted.
        """
        if place.index < 0 or acknowledged.transaction is not None or self.subscribed[acknowledged.consumer].by_index:
            return True
        if acknowledged.subscription in self.given_back:
            return False
        complete = acknowledged.began
        for each in self.of_topic[acknowledged.topic]:
            if each.place[:2] == place[:2]:
                began = [
                    one.began
                    for one in self.acknowledged.get(
                        Seat(acknowledged.subscription, acknowledged.topic, each.place), ()
                    )
                    if one.consumer == acknowledged.consumer and one.transaction is None
                ]
                if not began:
                    return False
                complete = max(complete, min(began))
        return not self.was_disturbed(_REPEATING, acknowledged.subscription, 0, complete)

    @cached_property
    def _moves(self) -> list[tuple[int, int]]:
        began = [each.at for each in self.history.disturbed if each.what == "move"]
        return list(zip(began, (each.at for each in self.history.disturbed if each.what == "moved"), strict=True))

    @cached_property
    def _closed(self) -> dict[str, Closed]:
        return {each.consumer: each for each in self.history.of(Closed) if each.outcome is Outcome.DONE}

    def _covered(self, acknowledged: Acknowledged) -> Iterable[Place]:
        if not acknowledged.cumulative:
            return [acknowledged.place]
        return [each.place for each in self.of_topic[acknowledged.topic] if each.place <= acknowledged.place]

    def was_disturbed(self, what: Iterable[str], subject: str, after: int, before: int) -> bool:
        return any(
            each.what in what and each.subject in ("", subject) and after < each.at < before
            for each in self.history.disturbed
        )


def sends_end_once(found: Found) -> Iterator[str]:
    """Each message that is sent has one outcome."""
    for sent in found.history.of(Sent):
        if sent.endings != 1:
            yield f"{sent.content!r} ended {sent.endings} times"


def nothing_is_made_up(found: Found) -> Iterator[str]:
    """What is stored was sent to that topic, and what is received is stored at its place."""
    for each in found.history.stored:
        sent = found.sent.get(each.content)
        if sent is None or _PARTITION.sub("", each.topic) != sent.topic:
            yield f"{each.content!r} is stored on {each.topic}, to which it was not sent"
    for got in found.history.received:
        stored = found.by_place.get((got.topic, got.place))
        if stored != got.content:
            yield f"{got.consumer} received {got.content!r} of {_at(got)}, where {stored!r} is"


def confirmed_sends_are_stored(found: Found) -> Iterator[str]:
    """A message whose sending succeeded is stored where the client says; in a transaction, once that is committed."""
    for sent in found.history.of(Sent):
        if sent.outcome is not Outcome.DONE or (
            sent.transaction is not None and found.committed(sent.transaction) is not True
        ):
            continue
        places = [each.place for each in found.stored.get(sent.content, ())]
        if not places:
            yield f"{sent.content!r} was confirmed, and is not stored"
        elif sent.place is not None and sent.place.ledger >= 0 and sent.place not in places:
            yield f"{sent.content!r} was confirmed at {sent.place}, and is at {places}"


def refused_sends_are_not_stored(found: Found) -> Iterator[str]:
    """A message whose sending failed for certain is not stored."""
    for sent in found.history.of(Sent):
        if sent.outcome is Outcome.REFUSED and sent.content in found.stored:
            yield f"{sent.content!r} was refused, and is stored"


def stored_once(found: Found) -> Iterator[str]:
    """No message is stored twice if the broker drops what its producer repeats, or if it is in a transaction."""
    for content, stored in found.stored.items():
        sent = found.sent.get(content)
        if len(stored) > 1 and sent is not None and (sent.once or sent.transaction is not None):
            yield f"{content!r} is stored {len(stored)} times: {[each.place for each in stored]}"


def senders_keep_their_order(found: Found) -> Iterator[str]:
    """The messages of a line are stored for the first time in the order in which they were sent."""
    for topic, stored in found.of_topic.items():
        last: dict[str, Sent] = {}
        seen: set[bytes] = set()
        for each in stored:
            sent = found.sent.get(each.content)
            if sent is None or each.content in seen:
                continue
            seen.add(each.content)
            before = last.get(sent.line)
            if before is not None and before.began > sent.began:
                yield f"{before.content!r} overtook {sent.content!r} on {topic}"
            last[sent.line] = sent


def received_in_order(found: Found) -> Iterator[str]:
    """A subscription of one consumer at a time gets new messages in the order of storing; with keys, of each key."""
    kinds: dict[str, set[ConsumerType | None]] = defaultdict(set)
    for each in found.history.of(Subscribed):
        if not _is_judge(each.consumer):
            kinds[each.subscription].add(each.kind)
    for subscription, received in found.of_subscription.items():
        if kinds[subscription] & {ConsumerType.Shared, None}:
            continue
        by_key = ConsumerType.KeyShared in kinds[subscription]
        yield from _out_of_order(found, received, by_key=by_key)


def _out_of_order(found: Found, received: Iterable[Received], *, by_key: bool) -> Iterator[str]:
    last: dict[tuple[str, str | None], Place] = {}
    seen: set[tuple[str, Place]] = set()
    moved: dict[str, int] = {each.subject: each.at for each in found.history.disturbed if each.what == "seek"}
    for got in received:
        if (got.topic, got.place) in seen or got.at > moved.get(got.subscription, got.at):
            continue
        seen.add((got.topic, got.place))
        sent = found.sent.get(got.content)
        if by_key and (sent is None or sent.key is None):
            continue
        line = got.topic, sent.key if by_key and sent is not None else None
        if line in last and got.place < last[line]:
            yield f"{got.consumer} received {got.content!r} of {_at(got)} after {last[line]}"
        last[line] = got.place


def everything_is_received(found: Found) -> Iterator[str]:
    """A subscription that began with the first message has received all in the end, and the judge the rest."""
    for subscription in found.left:
        topics = {
            topic for each in found.history.of(Subscribed) if each.subscription == subscription for topic in each.topics
        }
        got = {(each.topic, each.place) for each in found.of_subscription[subscription]}
        for stored in found.history.stored:
            if _PARTITION.sub("", stored.topic) in topics and (stored.topic, stored.place) not in got:
                yield f"{stored.content!r} never came to {subscription!r}"


def acknowledged_stays_acknowledged(found: Found) -> Iterator[str]:
    """No consumer that subscribes after a confirmed acknowledgement gets that message.

    A broker that is killed may have forgotten it: it writes its cursors once in a while.
    """
    for got in found.history.received:
        subscribed = found.subscribed[got.consumer]
        if subscribed.kind is None:
            continue
        for each in found.acknowledged.get(Seat(got.subscription, got.topic, got.place), ()):
            confirmed = found.confirmed_at(each)
            if (
                confirmed is not None
                and confirmed < subscribed.began
                and found.is_whole(each, got.place)
                and not found.was_disturbed(("seek", "amnesia"), got.subscription, each.began, got.at)
            ):
                yield f"{got.consumer} received {got.content!r}, which {each.consumer} had acknowledged for certain"
                break


def nothing_is_acknowledged_by_itself(found: Found) -> Iterator[str]:
    """The judge receives what nobody has acknowledged."""
    for subscription, left in found.left.items():
        for got in found.of_subscription[subscription]:
            seat = Seat(subscription, got.topic, got.place)
            if seat not in left and seat not in found.acknowledged:
                yield f"{got.content!r} is gone from {subscription!r}, and nobody acknowledged it"


def transactions_are_whole(found: Found) -> Iterator[str]:
    """All that belongs to a transaction can be seen, or nothing; nothing of one that did not commit."""
    names = {each.transaction for each in found.history.of(Acknowledged) if each.transaction} | set(
        found.of_transaction
    )
    acknowledged: dict[str, list[Acknowledged]] = defaultdict(list)
    for each in found.history.of(Acknowledged):
        if each.transaction is not None and each.outcome is Outcome.DONE:
            acknowledged[each.transaction].append(each)
    for name in sorted(names):
        if found.met_a_move(name):
            continue
        must = found.committed(name)
        signs = [
            (each.content in found.stored, repr(each.content))
            for each in found.of_transaction[name]
            if each.outcome is Outcome.DONE
        ]
        signs += [
            (counted, f"acknowledgement of {each.place} on {each.subscription!r}")
            for each in acknowledged[name]
            if (counted := _has_counted(found, each)) is not None
        ]
        visible = [what for seen, what in signs if seen]
        missing = [what for seen, what in signs if not seen]
        if must is False and visible:
            yield f"the transaction {name} did not commit, and these can be seen: {_few(visible)}"
        elif must is True and missing:
            yield f"the transaction {name} did commit, and these cannot be seen: {_few(missing)}"
        elif visible and missing:
            yield f"of the transaction {name} these can be seen: {_few(visible)}, and these cannot: {_few(missing)}"


def _has_counted(found: Found, acknowledged: Acknowledged) -> bool | None:
    """Return whether a message is acknowledged in the end; None if that has other causes, or nobody looked."""
    seat = Seat(acknowledged.subscription, acknowledged.topic, acknowledged.place)
    others = [each for each in found.history.of(Acknowledged) if each is not acknowledged and _may_cover(each, seat)]
    if seat.subscription not in found.left or others or (seat.topic, seat.place) not in found.by_place:
        return None
    return seat not in found.left[seat.subscription]


def _may_cover(acknowledged: Acknowledged, seat: Seat) -> bool:
    return (acknowledged.subscription, acknowledged.topic) == seat[:2] and (
        acknowledged.place == seat.place or (acknowledged.cumulative and acknowledged.place >= seat.place)
    )


def readers_miss_nothing(found: Found) -> Iterator[str]:
    """A reader gets new messages in their order, and none between its first and its last is missing."""
    lines: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for got in found.history.received:
        if found.subscribed[got.consumer].kind is None:
            places = lines[got.consumer, got.topic]
            if got.place not in places:
                places.append(got.place)
    for (reader, topic), places in lines.items():
        wanted = [each.place for each in found.of_topic[topic] if places[0] <= each.place <= max(places)]
        if places != wanted:
            yield f"{reader} read {places} of {topic}, where {wanted} are"


def repeats_have_a_reason(found: Found) -> Iterator[str]:
    """No message comes to a subscription twice, unless something happened between: to it, or to everything.

    A Failover consumer may hand out what it has queued after another has become the active one, and got the same: then
    that other's coming or the going of a third may have been before.
    """
    changes = [(each.began, each.ended or each.began) for each in found.history.of(Subscribed)]
    changes += [(each.began, each.ended or each.began) for each in found.history.of(Closed)]
    for received in found.of_subscription.values():
        first: dict[tuple[str, Place], Received] = {}
        for got in received:
            before = first.setdefault((got.topic, got.place), got)
            excused = (
                before is got
                or got.subscription in found.given_back
                or any(each.subject in ("", got.subscription) and each.at < got.at for each in found.history.disturbed)
                or any(began < got.at and ended > _queued_since(found, before, got) for began, ended in changes)
            )
            if not excused:
                yield f"{got.content!r} came to {got.consumer} again, for no reason"


def _queued_since(found: Found, before: Received, got: Received) -> int:
    """Return since when the first consumer may have had the message, for changes of who gets it to count."""
    is_handed_over = found.subscribed[got.consumer].kind is ConsumerType.Failover and got.consumer != before.consumer
    return found.sent[before.content].began if is_handed_over and before.content in found.sent else before.at


PROMISES: tuple[Callable[[Found], Iterator[str]], ...] = (
    sends_end_once,
    nothing_is_made_up,
    confirmed_sends_are_stored,
    refused_sends_are_not_stored,
    stored_once,
    senders_keep_their_order,
    received_in_order,
    everything_is_received,
    acknowledged_stays_acknowledged,
    nothing_is_acknowledged_by_itself,
    transactions_are_whole,
    readers_miss_nothing,
    repeats_have_a_reason,
)


def check(history: History) -> list[str]:
    """Hold a history against all promises, and name what was broken."""
    found = Found(history)
    return [f"{promise.__name__}: {text}" for promise in PROMISES for text in promise(found)]


def counts(history: History) -> Counter[str]:
    """Count what a history has, to see that there was something to check."""
    counted = Counter(type(each).__name__ for each in history.operations)
    return counted + Counter(received=len(history.received), stored=len(history.stored))


def _is_judge(consumer: str) -> bool:
    return consumer.startswith(JUDGE)


def _at(got: Received) -> str:
    return f"{got.place} of {got.topic}"


def _few(what: list[str]) -> str:
    return ", ".join(what[:_FEW]) + (f" and {len(what) - _FEW} more" if len(what) > _FEW else "")
