"""Faults: what goes wrong on the network, by itself as often as the weather says, or when a test asks for it.

A test asks with the methods here, at once or with `World.after`. They strike the connections of a host, or all where
none is named. A connection has two hosts: the name of the loop that connected, and what it connected to. Each fault is
counted and stands in the history; one that finds nothing to strike is no fault.
"""

import math
from collections import Counter

from pulsar_actors.runtime.simulated.agenda import Lane
from pulsar_actors.runtime.simulated.connection import End, Pipe, Setting
from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.weather import Fault, Weather

_OF_CONNECTS = (Fault.REFUSE, Fault.IGNORE)
_OF_PIECES = (Fault.CUT, Fault.STALL, Fault.DEAFEN, Fault.SPIKE, Fault.PARTITION)


class Faults:
    """All faults of one world. `connections` are the client ends of those that live."""

    def __init__(self, seed: int, setting: Setting) -> None:
        self.injected: Counter[Fault] = Counter()
        self.connections: list[End] = []
        self._setting = setting
        self._dice = Dice(seed, "faults")
        self._lane = Lane("faults")
        self._ordered: dict[Fault, Counter[str]] = {fault: Counter() for fault in _OF_CONNECTS}
        self._partitions: dict[str, float] = {}
        self._likely: list[tuple[Fault, float]] = []
        self._take_weather(setting.weather)

    def watch(self, client: End) -> None:
        """Know of a connection, and forget those that have ended."""
        self._forget_ended()
        self.connections.append(client)

    def calm(self) -> None:
        """Let nothing more go wrong by itself. What has begun takes its course."""
        self._take_weather(self._setting.weather.without_faults())

    def refuse(self, host: str, times: int = 1) -> None:
        """Let so many connects to the host be refused."""
        self._ordered[Fault.REFUSE][host] += times

    def ignore(self, host: str, times: int = 1) -> None:
        """Let so many connects to the host have no answer."""
        self._ordered[Fault.IGNORE][host] += times

    def cut(self, host: str | None = None) -> int:
        """End connections, and lose what is on its way; tell how many there were."""
        return sum(self._cut(client) for client in self._of(host))

    def stall(self, sender: str | None = None, seconds: float = math.inf) -> int:
        """Let nothing arrive that the host sends on connections that are there, for a while or ever again."""
        fault = Fault.STALL if seconds < math.inf else Fault.DEAFEN
        return sum(self._stall(fault, pipe, seconds) for pipe in self._pipes_from(sender))

    def spike(self, sender: str | None, seconds: float) -> int:
        """Let what the host sends next, and what comes after it, take that much longer."""
        return sum(self._spike(pipe, seconds) for pipe in self._pipes_from(sender))

    def partition(self, host: str, seconds: float) -> None:
        """Cut the host off for a while: what is sent, connects included, arrives afterwards."""
        until = self._setting.agenda.now + seconds
        self._partitions[host] = max(self._partitions.get(host, 0.0), until)
        for client in self._of(host):
            for pipe in (client.outgoing, client.incoming):
                pipe.stall(until)
        self._note(Fault.PARTITION, host, f"for {seconds:.3f} s")

    def fate_of_connect(self, client: End) -> Fault | None:
        """Tell whether a connect, of which this end is the client's, is to be refused or ignored."""
        for fault in _OF_CONNECTS:
            ordered = self._ordered[fault]
            is_ordered = ordered[client.peer.host] > 0
            if is_ordered:
                ordered[client.peer.host] -= 1
            if is_ordered or self._dice.happens(getattr(self._setting.weather, fault.value)):
                self._note(fault, client.name)
                return fault
        return None

    def cut_off_until(self, client: End) -> float:
        """Tell when a connection's hosts can reach each other."""
        return max(self._partitions.get(end.host, 0.0) for end in (client, client.peer))

    def _take_weather(self, weather: Weather) -> None:
        self._setting.weather = weather
        likely = [(fault, float(getattr(weather, fault.value))) for fault in _OF_PIECES]
        self._likely = [(fault, probability) for fault, probability in likely if probability]
        self._setting.disturb = self._disturb if self._likely else None

    def _disturb(self, sender: End) -> None:
        """Draw for each fault whether it strikes the piece that is about to leave."""
        for fault, probability in self._likely:
            if self._dice.happens(probability):
                self._strike(fault, sender)

    def _strike(self, fault: Fault, sender: End) -> None:
        setting = self._setting
        seconds = setting.weather.outage * self._dice.chance()
        match fault:
            case Fault.CUT:  # a moment later, so that the piece may be on its way
                setting.agenda.at(setting.agenda.now + 2 * setting.delay(), self._lane, self._cut, sender)
            case Fault.STALL:
                self._stall(fault, sender.outgoing, seconds)
            case Fault.DEAFEN:
                self._stall(fault, sender.outgoing, math.inf)
            case Fault.SPIKE:
                self._spike(sender.outgoing, seconds)
            case _:
                self.partition((sender, sender.peer)[self._dice.below(2)].host, seconds)

    def _cut(self, end: End) -> bool:
        if end.closed and end.peer.closed:
            return False
        lost = [pipe.cut() for pipe in (end.outgoing, end.incoming)]
        self._note(Fault.CUT, end.name, f"loses {lost[0]} sent and {lost[1]} received")
        return True

    def _stall(self, fault: Fault, pipe: Pipe, seconds: float) -> bool:
        pipe.stall(self._setting.agenda.now + seconds)
        self._note(fault, pipe.writer.name, f"for {seconds:.3f} s")
        return True

    def _spike(self, pipe: Pipe, seconds: float) -> bool:
        pipe.delay(seconds)
        self._note(Fault.SPIKE, pipe.writer.name, f"of {seconds:.3f} s")
        return True

    def _of(self, host: str | None) -> list[End]:
        """Give the client ends of the connections that a host has part in."""
        self._forget_ended()
        return [end for end in self.connections if host in (None, end.host, end.peer.host)]

    def _forget_ended(self) -> None:
        self.connections = [end for end in self.connections if not (end.closed and end.peer.closed)]

    def _pipes_from(self, sender: str | None) -> list[Pipe]:
        ends = [end for client in self._of(sender) for end in (client, client.peer)]
        return [end.outgoing for end in ends if sender in (None, end.host)]

    def _note(self, fault: Fault, place: str, how: str = "") -> None:
        self.injected[fault] += 1
        self._setting.history.add(self._setting.agenda.now, place, f"FAULT {fault.value} {how}".rstrip())
