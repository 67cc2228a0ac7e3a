import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.flow_permits import MOST_PERMITS, FlowPermits, queue_size_of_partition

FIRST = Generation(connection=1)


def test_a_subscribe_asks_for_the_whole_queue_once() -> None:
    permits = FlowPermits(1000)
    assert permits.subscribed(FIRST) == 1000
    assert permits.returned(FIRST, 0) == 0


def test_places_are_reported_once_half_the_queue_is_free() -> None:
    permits = FlowPermits(1000)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 1000)
    assert permits.handed_out(FIRST, 499) == 0
    assert permits.handed_out(FIRST, 1) == 500
    assert permits.returned(FIRST, 500) == 500


def test_nothing_is_granted_before_it_is_handed_out() -> None:
    permits = FlowPermits(2)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 50)
    assert permits.at_broker == -48
    assert permits.handed_out(FIRST, 49) == 49
    assert permits.handed_out(FIRST, 1) == 1
    assert permits.at_broker == 2


def test_a_queue_that_becomes_larger_gets_the_new_room_at_once() -> None:
    permits = FlowPermits(10)
    permits.subscribed(FIRST)
    permits.resize(16)
    assert permits.returned(FIRST, 0) == 0, "less than half of it is free"
    permits.resize(20)
    assert permits.returned(FIRST, 0) == 10


def test_a_queue_that_becomes_smaller_gets_nothing_until_half_of_it_is_free() -> None:
    permits = FlowPermits(20)
    permits.subscribed(FIRST)
    permits.resize(10)
    permits.arrived(FIRST, 20)
    assert permits.freed == -10
    assert permits.handed_out(FIRST, 14) == 0
    assert permits.handed_out(FIRST, 1) == 5
    assert permits.subscribed(Generation(connection=2)) == 10


def test_counts_of_an_earlier_connection_are_void() -> None:
    permits = FlowPermits(2)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 2)
    again = FIRST.attached_to(FIRST.connection + 1)
    assert permits.subscribed(again) == 2
    permits.arrived(FIRST, 1)
    assert permits.handed_out(FIRST, 2) == 0
    assert permits.returned(FIRST, 2) == 0
    assert (permits.held, permits.at_broker) == (0, 2)


def test_a_queue_that_was_not_cleared_gets_permits_for_its_free_room_only() -> None:
    permits = FlowPermits(10)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 9)
    permits.freed_unbound(FIRST, 2)
    assert permits.subscribed(FIRST) == 0, "half of it is not free yet"
    assert permits.handed_out(FIRST, 2) == 5
    assert (permits.held, permits.at_broker) == (5, 5)


def test_a_redelivery_of_everything_returns_what_it_cleared() -> None:
    permits = FlowPermits(10)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 8)
    assert permits.handed_out(FIRST, 2) == 0
    epoch = FIRST.redelivered_to(1)
    assert permits.cleared(epoch) == 8
    assert permits.handed_out(FIRST, 6) == 0
    permits.arrived(epoch, 5)
    assert permits.returned(epoch, 5) == 5


def test_an_empty_queue_asks_for_one_message_when_somebody_waits() -> None:
    permits = FlowPermits(0)
    assert permits.add_waiting_and_grant() == 0, "nobody to ask yet"
    assert permits.subscribed(FIRST) == 1
    permits.arrived(FIRST, 1)
    assert permits.handed_out(FIRST, 1) == 0
    assert permits.add_waiting_and_grant() == 1
    assert permits.add_waiting_and_grant() == 0, "one at a time"
    permits.arrived(FIRST, 1)
    assert permits.handed_out(FIRST, 1) == 1, "the second still waits"


def test_an_empty_queue_asks_again_when_the_message_was_nothing_to_deliver() -> None:
    permits = FlowPermits(0)
    permits.subscribed(FIRST)
    permits.add_waiting_and_grant()
    permits.arrived(FIRST, 1)
    assert permits.returned(FIRST, 1) == 1


def test_an_empty_queue_hands_out_a_whole_batch_before_it_asks_again() -> None:
    permits = FlowPermits(0)
    permits.subscribed(FIRST)
    permits.add_waiting_and_grant()
    permits.arrived(FIRST, 3)
    assert permits.handed_out(FIRST, 1) == 0
    assert permits.add_waiting_and_grant() == 0
    assert permits.handed_out(FIRST, 1) == 0
    assert permits.add_waiting_and_grant() == 0
    assert permits.handed_out(FIRST, 1) == 0
    assert permits.add_waiting_and_grant() == 3, "the batch took two more than were granted"
    assert permits.at_broker == 1


def test_a_caller_that_gave_up_leaves_its_permit_to_the_next() -> None:
    permits = FlowPermits(0)
    permits.subscribed(FIRST)
    assert permits.add_waiting_and_grant() == 1
    permits.remove_waiting()
    assert permits.add_waiting_and_grant() == 0
    again = FIRST.attached_to(FIRST.connection + 1)
    permits.remove_waiting()
    assert permits.subscribed(again) == 0
    permits.remove_waiting()
    assert permits.waiting == 0


def test_impossible_counts_are_refused_and_change_nothing() -> None:
    permits = FlowPermits(4)
    permits.subscribed(FIRST)
    permits.arrived(FIRST, 2)
    for count in (-1, 3):
        with pytest.raises(InternalError, match="holds 2"):
            permits.handed_out(FIRST, count)
        with pytest.raises(InternalError):
            permits.returned(FIRST, count)
    with pytest.raises(InternalError):
        permits.arrived(FIRST, -1)
    assert (permits.held, permits.at_broker) == (2, 2)


def test_a_queue_has_a_size_that_one_flow_can_grant() -> None:
    for size in (-1, MOST_PERMITS + 1):
        with pytest.raises(InvalidArgument, match=f"0 to 2,147,483,647 messages, not {size:,}"):
            FlowPermits(size)
    assert FlowPermits(MOST_PERMITS).subscribed(FIRST) == MOST_PERMITS


@pytest.mark.parametrize("batch", range(1, 8))
@pytest.mark.parametrize("queue_size", range(1, 12))
@pytest.mark.parametrize("report", range(1, 5))
def test_no_size_stalls_or_holds_more_than_the_queue_and_a_batch(queue_size: int, batch: int, report: int) -> None:
    permits = FlowPermits(queue_size)
    at_broker = permits.subscribed(FIRST)
    held = 0
    for _ in range(200):
        assert at_broker > 0, "the broker may send nothing and nothing is held: a stall"
        while at_broker > 0:
            at_broker -= batch
            held += batch
            permits.arrived(FIRST, batch)
        assert held <= queue_size + batch - 1
        while held:
            count = min(report, held)
            held -= count
            granted = permits.handed_out(FIRST, count)
            assert granted == 0 or granted >= max(1, queue_size // 2)
            at_broker += granted
            assert at_broker <= queue_size


class PermitsAgainstABroker(RuleBasedStateMachine):
    """A broker that knows only FLOW and what it sent; a user that knows only what was handed out."""

    @initialize(size=st.integers(0, 9))
    def start(self, size: int) -> None:
        self.size = size
        self.permits = FlowPermits(size)
        self.generation = Generation()
        self.waiting = 0
        self.subscribe()

    @rule()
    def subscribe(self) -> None:
        self.generation = self.generation.attached_to(self.generation.connection + 1)
        self.held = 0
        self.freed = self.size or 1
        self.broker = 0
        self.flow(self.permits.subscribed(self.generation))

    @rule(data=st.data())
    def subscribe_with_the_queue_that_is_here(self, data: st.DataObject) -> None:
        left = data.draw(st.integers(0, self.held))
        self.permits.freed_unbound(self.generation, left)
        self.held -= left
        self.broker = 0
        self.freed = (self.size or 1) - self.held
        self.flow(self.permits.subscribed(self.generation))

    @rule()
    def redeliver_all(self) -> None:
        self.generation = self.generation.redelivered_to(self.generation.epoch + 1)
        self.freed += self.held
        self.held = 0
        self.flow(self.permits.cleared(self.generation))

    @precondition(lambda self: self.broker > 0)
    @rule(batch=st.integers(1, 7), masked=st.integers(0, 6))
    def deliver(self, batch: int, masked: int) -> None:
        used = max(1, batch - masked)
        self.broker -= used
        self.held += used
        self.permits.arrived(self.generation, used)

    @precondition(lambda self: self.held > 0)
    @rule(data=st.data(), dropped=st.booleans())
    def leave(self, data: st.DataObject, *, dropped: bool) -> None:
        count = data.draw(st.integers(0, self.held))
        self.held -= count
        self.freed += count
        if not dropped:
            self.waiting = max(0, self.waiting - count)
        leave = self.permits.returned if dropped else self.permits.handed_out
        self.flow(leave(self.generation, count))

    @rule(count=st.integers(0, 5))
    def report_late(self, count: int) -> None:
        late = Generation(self.generation.connection - 1, self.generation.epoch)
        assert self.permits.handed_out(late, count) == 0
        self.waiting = max(0, self.waiting - count)  # the caller has its message, from any connection
        self.permits.arrived(late, count)

    @rule()
    def wait(self) -> None:
        self.waiting += 1
        self.flow(self.permits.add_waiting_and_grant())

    def flow(self, count: int) -> None:
        assert count >= 0
        self.broker += count
        self.freed -= count

    @invariant()
    def a_permit_is_neither_lost_nor_minted(self) -> None:
        assert (self.permits.at_broker, self.permits.held) == (self.broker, self.held)
        assert self.broker + self.held + self.freed == (self.size or 1)

    @invariant()
    def it_never_stalls(self) -> None:
        if self.held == 0 and (self.size or self.waiting):
            assert self.broker > 0
        assert self.freed >= 0 or self.broker == 0  # a kept queue may hold more than its size


TestPermitsAgainstABroker = PermitsAgainstABroker.TestCase
TestPermitsAgainstABroker.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    ("queue_size", "partitions", "places"),
    [(1000, 1, 1000), (1000, 50, 1000), (1000, 100, 500), (1000, 60_000, 1), (0, 4, 0)],
)
def test_partitions_share_the_places_that_there_are(queue_size: int, partitions: int, places: int) -> None:
    assert queue_size_of_partition(queue_size, 50_000, partitions) == places
