"""Requests that are lost without a loss of their connection, or whose answers are, or come late."""

from collections.abc import Callable, Sequence
from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Action, Delay, Drop, InterceptedCommand
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import OPERATION_TIMEOUT, PATIENCE, Scene


class Silence:
    """Has requests of a kind and their answers lost, or answers come late, until all is well.

    No request is lost between two others: of a connection that has lost one no more arrive.
    """

    def __init__(self, scene: Scene, request: type[Any], answer: type[Any]) -> None:
        self._scene = scene
        self._request = request
        self._dice = dice = Dice(scene.world.seed, "silence")
        self._lost = ((answer,), (answer,), (request,), (request, answer))[dice.below(4)]
        self._likely, self._is_late = dice.chance(), dice.happens(0.3)
        self._deaf: set[int] = set()
        self._is_over = False
        scene.have_broker(lambda broker: broker.faults.control(self._disturb))

    def _disturb(self, seen: InterceptedCommand) -> Action | None:
        kind = type(seen.command)
        if kind is self._request and seen.connection in self._deaf:
            return Drop()
        if self._is_over or kind not in self._lost or not self._dice.happens(self._likely):
            return None
        if kind is self._request:
            self._deaf.add(seen.connection)
            return Drop()
        return Delay(OPERATION_TIMEOUT * self._dice.chance()) if self._is_late else Drop()

    def end(self) -> None:
        """Let all be well from now on."""
        self._is_over = True
        self._scene.have_broker(Broker.cut_connections)
        self._scene.calm()

    def play_out(self, callers: list[Caller], ends: Sequence[Callable[[], object]]) -> None:
        """Let one of `ends` come at some time, and all be well later. Wait for the callers, and end the scene."""
        scene, world, dice = self._scene, self._scene.world, self._scene.dice
        end = ends[dice.below(len(ends))]
        world.after(10.0 ** (dice.chance() * 4 - 3), lambda: callers.append(world.spawn(end, "end")))
        world.after(2 * PATIENCE, lambda: callers.append(world.spawn(self.end, "calm")))
        world.run(until=lambda: scene.is_calm and all(caller.ended for caller in callers), limit=5 * PATIENCE)
        for caller in callers:
            caller.result()
        scene.end()
