"""A machine that a test drives."""

from typing import Any

from pulsar_actors.machines.state_machine import StartTimer, StateMachine


class Driven:
    """Passes events to a machine, and keeps the effects of the last one and the timers that were started."""

    def __init__(self, machine: StateMachine, *events: Any) -> None:
        self.machine: Any = machine
        self.now = 100.0
        self.timers: dict[type, StartTimer] = {}
        self.effects: list[Any] = []
        self.tell(*events)

    def tell(self, *events: Any) -> list[Any]:
        for event in events:
            self.effects = self.machine.handle(event, self.now)
            self.timers |= {type(e.event): e for e in self.effects if isinstance(e, StartTimer)}
        return self.effects

    def fire(self, kind: type) -> list[Any]:
        """Let the time of a timer pass, and the timer."""
        timer = self.timers[kind]
        self.now += timer.delay
        return self.tell(timer.event)

    def did(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]
