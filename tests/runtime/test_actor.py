import gc
import weakref
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pykka
import pytest

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.machine_history import MachineHistory
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.runtime.actor import ActorDied, ActorRef, LoopActor, MachineActor, forget_all_actors, tell
from pulsar_actors.runtime.loop import Loop
from tests.support.manual_loop import ManualLoop, RecordingActors


class Fragile(LoopActor):
    """Writes down what happens to it, and breaks when told to."""

    def __init__(self, loop: Loop, guardian: ActorRef | None, seen: list[Any]) -> None:
        super().__init__(loop, guardian)
        self.seen = seen

    def on_start(self) -> None:
        self.seen.append("begins")

    def receive(self, message: object) -> None:
        if isinstance(message, Exception):
            raise message
        if message == "finish":
            self.finish()
        self.seen.append(message)

    def abandon(self, bug: InternalError) -> None:
        self.seen.append(("owes nothing", str(bug)))
        if "worse" in str(bug):
            raise ValueError("even here")

    def missed(self, message: object) -> None:
        if isinstance(message, OSError):
            raise message
        self.seen.append(("missed", message))


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


@pytest.fixture
def seen() -> list[Any]:
    return []


def test_an_actor_begins_before_it_hears_anything_and_hears_in_order_on_its_loop(
    loop: ManualLoop, seen: list[Any]
) -> None:
    address = Fragile.start(loop, None, seen)
    for number in range(3):
        tell(address, number)
    assert seen == []
    loop.run()
    assert seen == ["begins", 0, 1, 2]


def test_an_actor_that_raises_ends_what_it_owes_with_an_error_that_names_the_bug(
    loop: ManualLoop, seen: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    actors = RecordingActors(loop)
    guardian = actors.make()
    address = Fragile.start(loop, guardian, seen)
    planted = KeyError("planted")
    tell(address, planted)
    (died,) = actors.heard(guardian)
    assert isinstance(died, ActorDied)
    assert died.who is address
    assert isinstance(died.bug, InternalError)
    assert "Fragile" in str(died.bug)
    assert "KeyError('planted')" in str(died.bug)
    assert died.bug.__cause__ is planted
    assert seen[1:] == [("owes nothing", str(died.bug)), ("missed", planted)], "what broke it may want an answer"
    assert "Fragile has ended by a bug" in caplog.text
    assert "planted" in caplog.text, "the traceback"
    assert not address.is_alive()


def test_one_that_cannot_even_end_what_it_owes_is_still_heard_of(
    loop: ManualLoop, seen: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    actors = RecordingActors(loop)
    guardian = actors.make()
    tell(Fragile.start(loop, guardian, seen), KeyError("worse"))
    assert len(actors.heard(guardian)) == 1
    assert "could not even end what it owed" in caplog.text


def test_one_that_cannot_answer_what_it_died_of_is_heard_of_too(
    loop: ManualLoop, seen: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    actors = RecordingActors(loop)
    guardian = actors.make()
    address = Fragile.start(loop, guardian, seen)
    tell(address, OSError("planted"))
    tell(address, "late")
    assert len(actors.heard(guardian)) == 1
    assert "could not even answer what it died of" in caplog.text
    assert seen[-1] == ("missed", "late")


def test_a_guardian_that_dies_has_nobody_to_tell(loop: ManualLoop, seen: list[Any]) -> None:
    tell(Fragile.start(loop, None, seen), KeyError("planted"))
    loop.run()
    assert seen[1][0] == "owes nothing"


def test_what_an_actor_is_told_after_its_end_is_missed_whether_it_was_under_way_or_not(
    loop: ManualLoop, seen: list[Any]
) -> None:
    address = Fragile.start(loop, None, seen)
    tell(address, "finish")
    tell(address, "under way")
    loop.run()
    tell(address, "late")
    loop.run()
    assert seen == ["begins", "finish", ("missed", "under way"), ("missed", "late")]


def test_after_its_end_nothing_is_done_in_an_actors_name(loop: ManualLoop, seen: list[Any]) -> None:
    actors: list[Fragile] = []

    class Known(Fragile):
        def on_start(self) -> None:
            actors.append(self)

    tell(Known.start(loop, None, seen), "finish")
    loop.run()
    actors[0].guarded(seen.append, "late")
    assert seen == ["finish"]


class Planner(LoopActor):
    """Has something done later, or elsewhere, and breaks over it."""

    def receive(self, message: object) -> None:
        if message == "later":
            self.later(1.0, self.fail, "what was put off")
        elif message == "elsewhere":
            self.run_blocking(lambda: "what came back", self.fail, timeout=1.0)
        else:
            self.finish()

    def fail(self, what: str) -> None:
        raise ValueError(what)


@pytest.mark.parametrize(("how", "what"), [("later", "what was put off"), ("elsewhere", "what came back")])
@pytest.mark.parametrize("meanwhile", ["nothing", "its end"])
def test_what_an_actor_put_off_is_done_in_its_name(loop: ManualLoop, how: str, what: str, meanwhile: str) -> None:
    actors = RecordingActors(loop)
    guardian = actors.make()
    planner = Planner.start(loop, guardian)
    tell(planner, how)
    if meanwhile == "its end":
        tell(planner, "finish")
    loop.run()
    loop.pass_time(2.0)
    loop.run_blocking_calls()
    bugs = [message.bug for message in actors.heard(guardian)]
    assert [what in str(bug) for bug in bugs] == ([True] if meanwhile == "nothing" else [])


def test_an_actor_that_ends_before_its_first_turn_does_not_begin(loop: ManualLoop, seen: list[Any]) -> None:
    class StillBorn(Fragile):
        def __init__(self, loop: Loop, guardian: ActorRef | None, seen: list[Any]) -> None:
            super().__init__(loop, guardian, seen)
            self.finish()

    StillBorn.start(loop, None, seen)
    loop.run()
    assert seen == []


def test_nobody_asks_an_actor(loop: ManualLoop, seen: list[Any]) -> None:
    address = Fragile.start(loop, None, seen)
    with pytest.raises(NotImplementedError, match="tell it"):
        address.ask("anything")


def test_an_inbox_is_a_way_onto_the_loop_and_holds_nothing(loop: ManualLoop, seen: list[Any]) -> None:
    inbox = Fragile.start(loop, None, seen).actor_inbox
    assert inbox.empty()
    with pytest.raises(NotImplementedError):
        inbox.get()


def test_actors_that_say_nothing_else_answer_nothing(loop: ManualLoop) -> None:
    class Plain(LoopActor):
        def receive(self, message: object) -> None:
            if message == "break":
                raise ValueError(message)
            self.finish()

    for message in ("break", "finish"):
        address = Plain.start(loop, None)
        tell(address, message)
        tell(address, "late")
        loop.run()
        assert not address.is_alive()
    with pytest.raises(NotImplementedError):
        LoopActor(loop, None).receive("anything")


def test_a_forked_child_begins_with_no_actors_though_another_thread_had_the_lock(
    loop: ManualLoop, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry: Any = pykka.ActorRegistry
    monkeypatch.setattr(registry, "_actor_refs", list(registry._actor_refs))
    monkeypatch.setattr(registry, "_actor_refs_lock", registry._actor_refs_lock)
    address = Fragile.start(loop, None, seen)
    assert address in pykka.ActorRegistry.get_all()
    before = registry._actor_refs_lock
    forget_all_actors()
    assert pykka.ActorRegistry.get_all() == []
    assert registry._actor_refs_lock is not before


# A machine's actor.


class Go(NamedTuple):
    """Begin."""


class Rung(NamedTuple):
    """A timer."""

    generation: int


class Say(NamedTuple):
    """An effect."""

    what: str


class Place(Enum):
    """The states."""

    HERE = "It goes on."
    GONE = "It is over."


HERE, GONE = Place


class Toy(StateMachine, chart=None):
    """Says two things and rings once, then it is over."""

    final_states: ClassVar = (GONE,)

    def __init__(self) -> None:
        """Begin anywhere: there is no chart."""
        self.state = HERE
        self.history = MachineHistory()

    def handle(self, event: Any, now: float) -> list[Any]:
        if isinstance(event, Go):
            return [Say(f"at {now}"), StartTimer(Rung(1), 2.0), Say("then")]
        self.state = GONE
        return [Say("rung")]


class ToyActor(MachineActor):
    def __init__(self, loop: Loop, guardian: ActorRef | None, seen: list[Any]) -> None:
        super().__init__(loop, guardian)
        self.machine = Toy()
        self.seen = seen

    def receive(self, message: Any) -> None:
        self.feed(message)

    def _say(self, effect: Say) -> None:
        self.seen.append(effect.what)

    def over(self) -> None:
        super().over()
        self.seen.append("over")

    PERFORMS: ClassVar = {Say: _say}


def test_effects_are_performed_in_their_order_and_timers_come_back_as_events(loop: ManualLoop, seen: list[Any]) -> None:
    tell(ToyActor.start(loop, None, seen), Go())
    loop.run()
    assert seen == ["at 100.0", "then"]
    loop.pass_time(1.9)
    assert len(seen) == 2
    loop.pass_time(0.2)
    assert seen[2:] == ["rung", "over"]


def test_a_timer_that_is_due_after_the_end_is_nobodys(loop: ManualLoop, seen: list[Any]) -> None:
    address = ToyActor.start(loop, None, seen)
    tell(address, Go())
    tell(address, KeyError("no event"))
    loop.run()
    seen.clear()

    class Ended(ToyActor):
        def receive(self, message: Any) -> None:
            super().receive(message)
            self.finish()

    tell(Ended.start(loop, None, seen), Go())
    loop.pass_time(3.0)
    assert seen.count("over") == 1, "the first actor's"


def test_a_timer_keeps_no_actor_that_has_ended(loop: ManualLoop, seen: list[Any]) -> None:
    class Ended(ToyActor):
        def receive(self, message: Any) -> None:
            super().receive(message)
            self.finish()
            seen.append(weakref.ref(self))

    tell(Ended.start(loop, None, seen), Go())
    loop.run()
    gc.collect()
    assert seen[-1]() is None
    loop.pass_time(3.0)


def test_an_effect_that_nobody_performs_is_a_bug(loop: ManualLoop, seen: list[Any]) -> None:
    class Forgetful(ToyActor):
        PERFORMS: ClassVar = {}

    actors = RecordingActors(loop)
    guardian = actors.make()
    tell(Forgetful.start(loop, guardian, seen), Go())
    (died,) = actors.heard(guardian)
    assert "Say" in str(died.bug)
