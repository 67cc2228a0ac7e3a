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
from mutants import Fault, Hunt, fault, hunting

from pulsar_actors.exceptions import AuthorizationError, ConnectionLost, ServiceUnitNotReady, Timeout
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.machines.topic_watch import CHART, State, TopicWatch
from pulsar_actors.machines.topic_watch_events import (
    AskToStop,
    AskToWatch,
    Attach,
    Begin,
    Changed,
    End,
    Joined,
    Leave,
    Listed,
    Over,
    Parted,
    Refused,
    Report,
    RetryDue,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess, CommandWatchTopicUpdate

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

    machine_class: Any = TopicWatch
    starts: tuple[int, ...] = (0, 1, 2, 2, 2)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.machine: TopicWatch = self.machine_class(WATCHER, "n", "p", jitter=lambda: 0.0, timeout=TIMEOUT)
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
                case Attach(connection):
                    self.attach(connection)
                case AskToWatch():
                    self.ask(effect)
                case Report(added, removed):
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
            case AskToStop(command):
                assert self.asked is not None or self.untold is not None, "has nobody to stop"
                assert command.watcher_id == WATCHER
                self.broker_was_told = True
            case Leave():
                assert self.link, "left a connection that it had not"
                self.disconnect()
            case Over(error):
                assert error is None or not self.was_told_to_end, "was told to end, and calls that an error"
                assert self.was_told_to_end or error is not None, "ended unasked, and does not say why"
                assert error not in [LOST, *WILL_PASS], "gave up what will pass"
                self.ended += 1

    # What happens to it.

    @initialize(data=st.data())
    def go_some_way(self, data: st.DataObject) -> None:
        self.tell(Begin())
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
        self.tell(Joined(self.connection, can_watch))

    @precondition(lambda self: self.link)
    @rule(error=st.sampled_from([LOST, LOST, FORBIDDEN]))
    def part(self, error: Any) -> None:
        is_final = error is FORBIDDEN and self.link == JOINING
        self.disconnect()
        self.tell(Parted(self.connection, error))
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
        """Answer as a broker does: it gives no list to whoever knows the hash of it."""
        assert self.asked is not None
        command = CommandWatchTopicListSuccess(request_id=0, watcher_id=WATCHER, topics_hash=self.hash)
        if not self.asked.command.HasField("topics_hash") or self.asked.command.topics_hash != self.hash:
            command.topic.extend(self.topics)
        self.asked, self.untold, self.pause = None, [], 0.0
        self.tell(Listed(self.connection, command))

    @precondition(lambda self: self.asked)
    @rule(error=st.sampled_from([*WILL_PASS, FORBIDDEN]))
    def refuse(self, error: Any) -> None:
        self.asked = None
        self.tell(Refused(self.connection, error))
        assert bool(self.ended) == (error is FORBIDDEN), "gave up, or did not, against what was said"

    @precondition(lambda self: self.untold)
    @rule()
    def say_what_has_changed(self) -> None:
        self.tell_of_a_change()

    def tell_of_a_change(self) -> None:
        assert self.untold is not None
        self.tell(Changed(self.connection, self.untold.pop(0)))

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
        late += [each for each in self.said if isinstance(each, RetryDue)]
        if late:
            self.tell(data.draw(st.sampled_from(late)))

    @precondition(lambda self: self.connection and not self.link)
    @rule(topics=st.frozensets(st.sampled_from(NAMES)), error=st.sampled_from([LOST, FORBIDDEN]))
    def the_connection_that_was_let_go_speaks(self, topics: frozenset[str], error: Any) -> None:
        listed = CommandWatchTopicListSuccess(request_id=0, watcher_id=WATCHER, topic=topics, topics_hash="late")
        changed = CommandWatchTopicUpdate(watcher_id=WATCHER, new_topics=topics, topics_hash="late")
        self.tell(Listed(self.connection, listed))
        self.tell(Changed(self.connection, changed))
        self.tell(Refused(self.connection, error))
        self.tell(Parted(self.connection, error))
        self.tell(Joined(self.connection, can_watch=True))

    @precondition(lambda self: len(self.said) > 5)
    @rule()
    def end(self) -> None:
        broker_knows = self.asked is not None or self.untold is not None
        self.was_told_to_end = True
        self.tell(End())
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
    def whoever_has_heard_everything_knows_what_there_is(self) -> None:
        if self.untold == []:
            assert self.reported == self.topics, "what there is was not reported"


MODEL = settings(max_examples=150, stateful_step_count=30)
HUNT = hunting(MODEL, 20)


def test_every_promise_of_a_watch_holds() -> None:
    run_state_machine_as_test(AnyWatch, settings=MODEL)


def pause_as_before(machine: TopicWatch, event: Any, now: float) -> Any:
    machine._backoff.reset()
    return machine.pause(event, now)


def list_as_a_change(machine: TopicWatch, event: Listed, now: float) -> Any:
    changed = CommandWatchTopicUpdate(new_topics=event.command.topic, topics_hash=event.command.topics_hash)
    return machine.report_change(Changed(event.connection, changed), now)


def always(machine: TopicWatch, event: Any, now: float) -> bool:
    return True


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method for method in (pause_as_before, list_as_a_change, always)
}
"""Guards and actions that only faults name."""


# fmt: off
FAULTS = [
    # What there is is reported, each topic once.
    fault(Listed, State.ASKING, "report_list", {"does": None},
          "what there is was not reported", "go_on"),
    fault(Listed, State.ASKING, "report_list", {"does": "list_as_a_change"},
          "what there is was not reported", "go_on", "part", "topics_change"),
    fault(Changed, State.WATCHING, "report_change", {"does": None},
          "what there is was not reported", "topics_change", "go_on"),
    fault(Changed, State.WAITING, None, {"does": "report_change"},
          "told twice|not reported|after the end", "part", "the_connection_that_was_let_go_speaks", "go_on"),
    # It tries again, after pauses that grow, what will pass.
    fault(Parted, State.WATCHING, "pause", {"does": None},
          "waits for nothing", "part"),
    fault(Parted, State.WATCHING, "pause", {"does": "pause_as_before"},
          "pauses that do not grow", "part", "go_on", "time_passes"),
    fault(Refused, State.ASKING, "let_go", {"dest": State.OVER, "does": "let_go_for_good"},
          "gave up what will pass", "refuse"),
    fault(Refused, State.ASKING, "let_go", {"does": "pause"},
          "kept its connection in a pause", "refuse"),
    fault(RetryDue, State.WAITING, "attach", {"does": None},
          "waits for nothing", "part", "time_passes"),
    fault(RetryDue, State.ATTACHING, None, {"does": "attach"},
          "attaches twice|counts its|after the end", "part", "time_passes", "something_is_said_again"),
    # What will not pass ends it.
    fault(Joined, State.ATTACHING, "ask", {"guard": "always"},
          "asks a broker that takes no watches", "join"),
    fault(Parted, State.ATTACHING, "end_refused", {"guard": "always"},
          "gave up what will pass", "part"),
    fault(Refused, State.ASKING, "let_go_for_good", {"dest": State.WAITING, "does": "let_go"},
          "gave up, or did not", "refuse"),
    fault(Refused, State.ASKING, "let_go_for_good", {"does": "end_refused"},
          "kept its connection after the end", "refuse"),
    # The end is the end, and the broker hears of it.
    fault(End, State.WATCHING, "stop", {"does": "leave"},
          "the broker was not told to stop", "end", "topics_change", "go_on"),
    fault(End, State.ATTACHING, "leave", {"does": "end_apart"},
          "kept its connection after the end", "end", "part", "time_passes"),
    fault(End, State.WAITING, "end_apart", {"does": None},
          "against what was said", "end", "part", "go_on"),
    fault(End, State.WAITING, "end_apart", {"does": "leave"},
          "left a connection that it had not", "end", "part", "go_on"),
    fault(End, State.WATCHING, "stop", {"dest": INTERNAL},
          "against what was said", "end", "topics_change", "go_on"),
]
# fmt: on
STEPS_TO: dict[Any, int] = {State.ATTACHING: 0, State.ASKING: 1}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    never_stuck = fault._replace(rules=fault.rules | {"go_on"})  # most of the others wait for something
    Hunt(CHART, TopicWatch, AnyWatch, FURTHER, HUNT).find_out(never_stuck, STEPS_TO.get(fault.state, 2))
