"""The faults of the runs, by name. Each begins, lasts, and ends; some are over as soon as they have begun."""

import random
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

from pulsar_actors.runtime.thread_loop import ThreadLoop
from tests.chaos.target import Apache, ApacheCluster, ApachePulsar, Target
from tests.support.relay import Relay

Begin = Callable[[Target, str, random.Random], Callable[[], object]]
"""Starts a fault in a namespace of a broker. Returns what ends it."""


class Fault(NamedTuple):
    """A fault."""

    name: str
    begin: Begin
    seconds: tuple[float, float] = (1.0, 8.0)
    """How long it lasts: from, to."""
    needs: str = ""
    """What it takes: `tls`; a `durable` store, which has after a kill what was acknowledged; a `clock` or a `disk` that
    can be changed; `several` brokers."""
    forgets: bool = False
    """Whether the broker may forget acknowledgements that it has confirmed."""
    moves: bool = False
    """Whether the broker closes topics and loads them again while it runs."""
    is_overtaken: bool = False
    """Whether another broker, if there is one, may load its topics while it runs."""


def nothing() -> None:
    """End a fault that is over already."""


def _kill(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.kill()
    return target.start


def _freeze(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.freeze()
    return target.thaw


def _lose(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    """Kill a broker, which stays away: the fault is over when the others may take its topics."""
    target.kill()
    return nothing


def _fill_disk(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    assert isinstance(target, ApachePulsar)
    target.fill_disk()
    return target.restart


def _unload(target: Target, namespace: str, _: random.Random) -> Callable[[], object]:
    target.admin.call("PUT", f"namespaces/{namespace}/unload")
    return nothing


def _split(target: Target, namespace: str, dice: random.Random) -> Callable[[], object]:
    ends = target.admin.json("GET", f"namespaces/{namespace}/bundles")["boundaries"]
    at = dice.randrange(len(ends) - 1)
    target.admin.call("PUT", f"namespaces/{namespace}/{ends[at]}_{ends[at + 1]}/split?unload=true")
    return nothing


def _at_relays(act: Callable[[Relay], None], *, lasts: bool = False) -> Begin:
    """Make a fault of the network, which is over at once unless it lasts."""

    def begin(target: Target, _: str, __: random.Random) -> Callable[[], object]:
        for relay in target.relays:
            act(relay)
        return target.heal if lasts else nothing

    return begin


def _slow_link(target: Target, _: str, dice: random.Random) -> Callable[[], object]:
    for relay in target.relays:
        relay.slow_down(dice.uniform(0.02, 0.2), dice.randrange(20_000, 200_000))
    return target.heal


def _expired(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.token_is_valid = False
    for relay in target.relays:
        relay.reset()  # or else only those connections notice whose token runs out meanwhile
    return target.heal


def _rotation(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    assert isinstance(target, Apache)
    target.rotate_certificates()
    for relay in target.relays:
        relay.reset()
    return nothing


def _jump(dice: random.Random) -> float:
    """Return by how many seconds a clock jumps."""
    return dice.choice((-1, 1)) * 10 ** dice.uniform(0, 5)


def _clock_of_broker(target: Target, _: str, dice: random.Random) -> Callable[[], object]:
    assert isinstance(target, Apache)
    target.clock.set(_jump(dice))
    return lambda: target.clock.set(0)


def _clock(target: Target, _: str, dice: random.Random) -> Callable[[], object]:
    """Let the clock of this process jump; the broker's goes on."""
    seconds = _jump(dice)
    true = ThreadLoop.wall_clock_ms
    patch = mock.patch.object(ThreadLoop, "wall_clock_ms", lambda loop: true(loop) + int(seconds * 1000))
    patch.start()
    return patch.stop


FAULTS = (
    Fault("kill -9", _kill, (0.0, 1.0), needs="durable", forgets=True, is_overtaken=True),
    Fault("lost broker", _lose, (ApacheCluster.session_seconds,) * 2, needs="several", forgets=True, is_overtaken=True),
    Fault("full disk", _fill_disk, (1.0, 8.0), needs="disk", forgets=True),
    Fault("freeze", _freeze, (5.0, 60.0), is_overtaken=True),
    Fault("unload", _unload, (0.0, 0.0), moves=True),
    Fault("split", _split, (0.0, 0.0), needs="durable", moves=True),
    Fault("reset", _at_relays(Relay.reset), (0.0, 0.0)),
    Fault("half open", _at_relays(Relay.half_open), (0.0, 0.0)),
    Fault("black hole", _at_relays(Relay.stall, lasts=True), (2.0, 20.0)),
    Fault("slow link", _slow_link, (2.0, 8.0)),
    Fault("garbage", _at_relays(Relay.corrupt), (0.0, 0.0)),
    Fault("clock jump", _clock, (2.0, 8.0)),
    Fault("clock of the broker", _clock_of_broker, (2.0, 8.0), needs="clock"),
    Fault("expired token", _expired, (4.0, 8.0), needs="tls"),
    Fault("certificates", _rotation, (0.0, 0.0), needs="tls"),
)


def fault_of(name: str) -> Fault:
    """Find a fault."""
    return next(fault for fault in FAULTS if fault.name == name)


def is_possible(fault: Fault, target: Target) -> bool:
    """Return whether a broker can have the fault."""
    return fault.needs in {"", *target.offers}
