"""The faults of the runs, by name. Each begins, lasts, and ends; some are over as soon as they have begun."""

import random
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

from pulsar_actors.runtime.thread_loop import ThreadLoop
from tests.chaos.gate import Gate
from tests.chaos.target import Target

Begin = Callable[[Target, str, random.Random], Callable[[], object]]
"""Starts a fault in a namespace of a broker. Returns what ends it."""


class Fault(NamedTuple):
    """A fault."""

    name: str
    begin: Begin
    seconds: tuple[float, float] = (1.0, 8.0)
    """How long it lasts: from, to."""
    needs: str = ""
    """What it takes of a broker, `tls` or `durable`: an Apache Pulsar has both."""
    forgets: bool = False
    """Whether the broker may forget acknowledgements that it has confirmed."""


def nothing() -> None:
    """End a fault that is over already."""


def _kill(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.kill()
    return target.start


def _freeze(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.freeze()
    return target.thaw


def _unload(target: Target, namespace: str, _: random.Random) -> Callable[[], object]:
    target.admin.call("PUT", f"namespaces/{namespace}/unload")
    return nothing


def _split(target: Target, namespace: str, dice: random.Random) -> Callable[[], object]:
    ends = target.admin.json("GET", f"namespaces/{namespace}/bundles")["boundaries"]
    at = dice.randrange(len(ends) - 1)
    target.admin.call("PUT", f"namespaces/{namespace}/{ends[at]}_{ends[at + 1]}/split?unload=true")
    return nothing


def _at_gates(act: Callable[[Gate], None], *, lasts: bool = False) -> Begin:
    """Make a fault of the network, which is over at once unless it lasts."""

    def begin(target: Target, _: str, __: random.Random) -> Callable[[], object]:
        for gate in target.gates:
            act(gate)
        return target.heal if lasts else nothing

    return begin


def _slow_link(target: Target, _: str, dice: random.Random) -> Callable[[], object]:
    for gate in target.gates:
        gate.slow_down(dice.uniform(0.02, 0.2), dice.randrange(20_000, 200_000))
    return target.heal


def _expired(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.token_is_valid = False
    for gate in target.gates:
        gate.reset()  # or else only those connections notice whose token runs out meanwhile
    return target.heal


def _rotation(target: Target, _: str, __: random.Random) -> Callable[[], object]:
    target.rotate_certificates()
    for gate in target.gates:
        gate.reset()
    return nothing


def _clock(target: Target, _: str, dice: random.Random) -> Callable[[], object]:
    """Let the clock of this process jump; the broker's goes on."""
    seconds = dice.choice((-1, 1)) * 10 ** dice.uniform(0, 5)
    true = ThreadLoop.wall_clock_ms
    patch = mock.patch.object(ThreadLoop, "wall_clock_ms", lambda loop: true(loop) + int(seconds * 1000))
    patch.start()
    return patch.stop


FAULTS = (
    Fault("kill -9", _kill, (0.0, 1.0), needs="durable", forgets=True),
    Fault("freeze", _freeze, (5.0, 60.0)),
    Fault("unload", _unload, (0.0, 0.0)),
    Fault("split", _split, (0.0, 0.0), needs="durable"),
    Fault("reset", _at_gates(Gate.reset), (0.0, 0.0)),
    Fault("half open", _at_gates(Gate.half_open), (0.0, 0.0)),
    Fault("black hole", _at_gates(Gate.swallow, lasts=True), (2.0, 20.0)),
    Fault("slow link", _slow_link, (2.0, 8.0)),
    Fault("garbage", _at_gates(Gate.corrupt), (0.0, 0.0)),
    Fault("clock jump", _clock, (2.0, 8.0)),
    Fault("expired token", _expired, (4.0, 8.0), needs="tls"),
    Fault("certificates", _rotation, (0.0, 0.0), needs="tls"),
)


def fault_of(name: str) -> Fault:
    """Find a fault."""
    return next(fault for fault in FAULTS if fault.name == name)


def is_possible(fault: Fault, target: Target) -> bool:
    """Return whether a broker can have the fault."""
    return {"": True, "tls": target.has_tls, "durable": target.is_durable}[fault.needs]
