"""Whatever brokers and connections do to a watch of topics, its promises hold; a chart that breaks one is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.exceptions import AuthorizationError, ConnectionLost, ServiceUnitNotReady, Timeout
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.topic_list_watcher import (
    CHART,
    AskToStopWatching,
    AskToWatch,
    AttachWatcher,
    DetachWatcher,
    ReportTopicChanges,
    StartWatching,
    State,
    StopWatching,
    TopicListWatcher,
    WatcherAttached,
    WatcherDetached,
    WatcherEnded,
    WatchRefused,
    WatchRetryDue,
    WatchStarted,
    WatchUpdated,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess, CommandWatchTopicUpdate
from tests.machines.mutants import Fault, Hunt, fault, hunting

WATCHER = 7
TIMEOUT = 30.0
LONGEST = 60.0  # of the pauses
LOST = ConnectionLost("reset")
WILL_PASS = [ServiceUnitNotReady("ServiceNotReady", "later"), Timeout("late")]
FORBIDDEN = AuthorizationError("AuthorizationError", "no")
NAMES = [f"persistent://public/default/{letter}" for letter in "abc"]
JOINING, JOINED = "joining", "joined"


class AnyWatch(RuleBasedStateMachine):
    """A watch, the broker that it asks with the topics that this has, and a record of what was reported of them."""

    machine_class: Any = TopicListWatcher
    starts: tuple[int, ...] = (0, 1, 2, 2, 2)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.machine: TopicListWatcher = self.machine_class(
            WATCHER, "n", "p", backoff=Backoff(lambda: 0.0), timeout=TIMEOUT
        )
        self.topics: frozenset[str] = frozenset(NAMES[:1])
        self.reported: frozenset[str] = frozenset()
        self.connection = 0
        self.link = ""  # what there is of the connection
        self.can_watch = False
        self.asked: AskToWatch | None = None
        self.untold: list[CommandWatchTopicUpdate] | None = None  # once the broker watches, what it has not said yet
        self.said: list[Any] = []
        self.timer: StartTimer | None = None
        self.pause = 0.0
        self.error: Any = None
        self.ended = 0
        self.was_told_to_end = self.broker_was_told = False

    # What the watch does.

    def tell(self, event: Any) -> None:
        self.said.append(event)
        for effect in self.machine.handle(event, self.now):
            assert not self.ended, "did something after the end"
            match effect:
                case AttachWatcher(connection):
                    self.attach(connection)
                case AskToWatch():
                    self.ask(effect)
                case ReportTopicChanges(added, removed):
                    self.hear(added, removed)
                case StartTimer():
                    self.rest(effect)
                case _:
                    self.let_go(effect)

    def attach(self, connection: int) -> None:
        assert not self.link, "attaches twice"
        assert connection > self.connection, "counts its connections wrongly"
        self.connection, self.link = connection, JOINING

    def ask(self, asked: AskToWatch) -> None:
        assert self.link == JOINED, "asks where there is no connection"
        assert self.can_watch, "asks a broker that takes no watches"
        assert self.asked is None, "asks twice"
        assert asked.command.watcher_id == WATCHER
        self.asked = asked

    def hear(self, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
        assert not self.reported.intersection(added), "told twice that one has come"
        assert self.reported.issuperset(removed), "told that one has gone that was not there"
        assert added or removed, "told of nothing"
        self.reported = self.reported.union(added).difference(removed)

    def rest(self, timer: StartTimer) -> None:
        assert self.timer is None, "pauses twice"
        assert timer.delay > self.pause or timer.delay == LONGEST, "pauses that do not grow"
        self.timer, self.pause = timer, timer.delay

    def let_go(self, effect: Any) -> None:
        match effect:
            case AskToStopWatching(command):
                assert self.asked is not None or self.untold is not None, "has nobody to stop"
                assert command.watcher_id == WATCHER
                self.broker_was_told = True
            case DetachWatcher():
                assert self.link, "left a connection that it had not"
                self.disconnect()
            case WatcherEnded(error):
                assert error is None or not self.was_told_to_end, "was told to end, and calls that an error"
                assert self.was_told_to_end or error is not None, "ended unasked, and does not say why"
                assert error not in [LOST, *WILL_PASS], "gave up what will pass"
                self.ended += 1

    # What happens to it.

    @initialize(data=st.data())
    def go_some_way(self, data: st.DataObject) -> None:
        self.tell(StartWatching())
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let all that is asked for succeed."""
        if self.link == JOINING:
            self.join_one(can_watch=True)
        elif self.asked is not None:
            self.list_topics()
        elif self.timer is not None:
            self.wait()
        elif self.untold:
            self.tell_of_a_change()

    @precondition(lambda self: self.link == JOINING)
    @rule(can_watch=st.booleans())
    def join(self, *, can_watch: bool) -> None:
        self.join_one(can_watch=can_watch)

    def join_one(self, *, can_watch: bool) -> None:
        self.link, self.can_watch = JOINED, can_watch
        self.tell(WatcherAttached(self.connection, can_watch))

    @precondition(lambda self: self.link)
    @rule(error=st.sampled_from([LOST, LOST, FORBIDDEN]))
    def part(self, error: Any) -> None:
        is_final = error is FORBIDDEN and self.link == JOINING
        self.disconnect()
        self.tell(WatcherDetached(self.connection, error))
        assert bool(self.ended) == is_final, "gave up, or did not, against what was said"

    def disconnect(self) -> None:
        self.link, self.asked, self.untold = "", None, None

    @rule(topics=st.frozensets(st.sampled_from(NAMES)))
    def topics_change(self, topics: frozenset[str]) -> None:
        before, self.topics = self.topics, topics
        if self.untold is not None and before != topics:
            update = CommandWatchTopicUpdate(watcher_id=WATCHER, topics_hash=self.hash)
            update.new_topics.extend(topics - before)
            update.deleted_topics.extend(before - topics)
            self.untold.append(update)

    @property
    def hash(self) -> str:
        return ",".join(sorted(self.topics))

    def list_topics(self) -> None:
        """Answer as a broker does, without the list if the request has its hash."""
        assert self.asked is not None
        command = CommandWatchTopicListSuccess(request_id=0, watcher_id=WATCHER, topics_hash=self.hash)
        if not self.asked.command.HasField("topics_hash") or self.asked.command.topics_hash != self.hash:
            command.topic.extend(self.topics)
        self.asked, self.untold, self.pause = None, [], 0.0
        self.tell(WatchStarted(self.connection, command))

    @precondition(lambda self: self.asked)
    @rule(error=st.sampled_from([*WILL_PASS, FORBIDDEN]))
    def refuse(self, error: Any) -> None:
        self.asked = None
        self.tell(WatchRefused(self.connection, error))
        assert bool(self.ended) == (error is FORBIDDEN), "gave up, or did not, against what was said"

    @precondition(lambda self: self.untold)
    @rule()
    def say_what_has_changed(self) -> None:
        self.tell_of_a_change()

    def tell_of_a_change(self) -> None:
        assert self.untold is not None
        self.tell(WatchUpdated(self.connection, self.untold.pop(0)))

    @precondition(lambda self: self.timer)
    @rule()
    def time_passes(self) -> None:
        self.wait()

    def wait(self) -> None:
        timer, self.timer = self.timer, None
        assert timer is not None
        self.now += timer.delay
        self.tell(timer.event)

    @rule(data=st.data())
    def something_is_said_again(self, data: st.DataObject) -> None:
        """Let a stale timer fire, or an earlier connection say something yet; the present one says things once."""
        late = [each for each in self.said if getattr(each, "connection", self.connection) != self.connection]
        late += [each for each in self.said if isinstance(each, WatchRetryDue)]
        if late:
            self.tell(data.draw(st.sampled_from(late)))

    @precondition(lambda self: self.connection and not self.link)
    @rule(topics=st.frozensets(st.sampled_from(NAMES)), error=st.sampled_from([LOST, FORBIDDEN]))
    def the_connection_that_was_let_go_speaks(self, topics: frozenset[str], error: Any) -> None:
        listed = CommandWatchTopicListSuccess(request_id=0, watcher_id=WATCHER, topic=topics, topics_hash="late")
        changed = CommandWatchTopicUpdate(watcher_id=WATCHER, new_topics=topics, topics_hash="late")
        self.tell(WatchStarted(self.connection, listed))
        self.tell(WatchUpdated(self.connection, changed))
        self.tell(WatchRefused(self.connection, error))
        self.tell(WatcherDetached(self.connection, error))
        self.tell(WatcherAttached(self.connection, can_watch=True))

    @precondition(lambda self: len(self.said) > 5)
    @rule()
    def end(self) -> None:
        broker_knows = self.asked is not None or self.untold is not None
        self.was_told_to_end = True
        self.tell(StopWatching())
        assert self.broker_was_told or not broker_knows, "the broker was not told to stop"
        self.timer = None

    # What holds all the time.

    @invariant()
    def it_goes_on_until_its_end(self) -> None:
        if not self.said:
            return
        assert self.ended <= 1, "ended twice"
        assert bool(self.ended) == (self.machine.state is State.OVER), "ended, or not, against what was said"
        if self.ended:
            assert not self.link, "kept its connection after the end"
            return
        waits = self.link == JOINING or self.asked or self.timer or self.untold is not None
        assert waits, "waits for nothing"
        assert self.timer is None or not self.link, "kept its connection in a pause"

    @invariant()
    def all_topics_are_reported_once_every_change_has_arrived(self) -> None:
        if self.untold == []:
            assert self.reported == self.topics, "what there is was not reported"


MODEL = settings(max_examples=150, stateful_step_count=30)
HUNT = hunting(MODEL, 20)


def test_every_promise_of_a_watch_holds() -> None:
    run_state_machine_as_test(AnyWatch, settings=MODEL)


def back_off_as_before(machine: TopicListWatcher, event: Any, now: float) -> Any:
    machine._backoff.reset()
    return machine.back_off(event, now)


def list_as_a_change(machine: TopicListWatcher, event: WatchStarted, now: float) -> Any:
    changed = CommandWatchTopicUpdate(new_topics=event.command.topic, topics_hash=event.command.topics_hash)
    return machine.report_change(WatchUpdated(event.connection, changed), now)


def always(machine: TopicListWatcher, event: Any, now: float) -> bool:
    return True


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method for method in (back_off_as_before, list_as_a_change, always)
}
"""Guards and actions that only faults name."""


# fmt: off
FAULTS = [
    # What there is is reported, each topic once.
    fault(WatchStarted, State.ASKING, "report_list", {"does": None},
          "what there is was not reported", "go_on"),
    fault(WatchStarted, State.ASKING, "report_list", {"does": "list_as_a_change"},
          "what there is was not reported", "go_on", "part", "topics_change"),
    fault(WatchUpdated, State.WATCHING, "report_change", {"does": None},
          "what there is was not reported", "topics_change", "go_on"),
    fault(WatchUpdated, State.WAITING, None, {"does": "report_change"},
          "told twice|not reported|after the end", "part", "the_connection_that_was_let_go_speaks", "go_on"),
    # It tries again, after pauses that grow, what will pass.
    fault(WatcherDetached, State.WATCHING, "back_off", {"does": None},
          "waits for nothing", "part"),
    fault(WatcherDetached, State.WATCHING, "back_off", {"does": "back_off_as_before"},
          "pauses that do not grow", "part", "go_on", "time_passes"),
    fault(WatchRefused, State.ASKING, "detach_and_back_off", {"dest": State.OVER, "does": "detach_and_end"},
          "gave up what will pass", "refuse"),
    fault(WatchRefused, State.ASKING, "detach_and_back_off", {"does": "back_off"},
          "kept its connection in a pause", "refuse"),
    fault(WatchRetryDue, State.WAITING, "attach", {"does": None},
          "waits for nothing", "part", "time_passes"),
    fault(WatchRetryDue, State.ATTACHING, None, {"does": "attach"},
          "attaches twice|counts its|after the end", "part", "time_passes", "something_is_said_again"),
    # What will not pass ends it.
    fault(WatcherAttached, State.ATTACHING, "send_request", {"guard": "always"},
          "asks a broker that takes no watches", "join"),
    fault(WatcherDetached, State.ATTACHING, "end_refused", {"guard": "always"},
          "gave up what will pass", "part"),
    fault(WatchRefused, State.ASKING, "detach_and_end", {"dest": State.WAITING, "does": "detach_and_back_off"},
          "gave up, or did not", "refuse"),
    fault(WatchRefused, State.ASKING, "detach_and_end", {"does": "end_refused"},
          "kept its connection after the end", "refuse"),
    # The end is the end, and the broker hears of it.
    fault(StopWatching, State.WATCHING, "stop_broker", {"does": "detach_and_stop"},
          "the broker was not told to stop", "end", "topics_change", "go_on"),
    fault(StopWatching, State.ATTACHING, "detach_and_stop", {"does": "end_detached"},
          "kept its connection after the end", "end", "part", "time_passes"),
    fault(StopWatching, State.WAITING, "end_detached", {"does": None},
          "against what was said", "end", "part", "go_on"),
    fault(StopWatching, State.WAITING, "end_detached", {"does": "detach_and_stop"},
          "left a connection that it had not", "end", "part", "go_on"),
    fault(StopWatching, State.WATCHING, "stop_broker", {"dest": INTERNAL},
          "against what was said", "end", "topics_change", "go_on"),
]
# fmt: on
STEPS_TO: dict[Any, int] = {State.ATTACHING: 0, State.ASKING: 1}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    never_stuck = fault._replace(rules=fault.rules | {"go_on"})  # most of the others wait for something
    Hunt(CHART, TopicListWatcher, AnyWatch, FURTHER, HUNT).find_out(never_stuck, STEPS_TO.get(fault.state, 2))
