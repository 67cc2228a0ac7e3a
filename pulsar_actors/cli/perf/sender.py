"""Messages on their way out: each is sent when it is due, and timed, or one of so many is, until the broker has it.

A message with a due time is timed from there, also if it left late, for a user would have waited as well. Receipts come
in the order in which messages were sent, so the number of a receipt tells whose it is.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Final

from pulsar_actors.cli.perf.contents import Content
from pulsar_actors.cli.perf.pace import Pace
from pulsar_actors.cli.perf.tally import Tally
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producing.producer import Producer

ALL_TIMED: Final = 10_000
"""Messages a second up to which each is timed; of more than that, or of as many as there can be, one of so many."""

ONE_OF: Final = 50


def timed_one_of(rate: float) -> int:
    """Say which share of messages is timed at a rate."""
    return 1 if 0 < rate <= ALL_TIMED else ONE_OF


class Track:
    """The messages of one producer, which have so many bytes in the mean."""

    __slots__ = ("_ended", "_one_of", "_send", "_sent", "_size", "_timed", "producer", "tally")

    def __init__(self, producer: Producer, size: float, one_of: int) -> None:
        self.producer = producer
        self.tally = Tally()
        self._send = producer.send_async
        self._size = size
        self._one_of = one_of
        self._sent = 0
        self._ended = 0
        self._timed: deque[tuple[int, float]] = deque()

    def send(self, content: Content, pace: Pace, number: int) -> None:
        """Send one, which has a number in its pace."""
        payload, fields = content
        self._sent += 1
        if self._sent % self._one_of == 0:
            self._timed.append((self._sent, pace.due_at(number)))
        self._send(payload, self.heard, **fields)

    def heard(self, result: Result, _: MessageId) -> None:
        """Count what the broker has, or has not; on the loop."""
        self._ended += 1
        tally = self.tally
        if result is Result.Ok:
            tally.messages += 1
            tally.octets += self._size
        else:
            tally.failed += 1
        timed = self._timed
        if timed and timed[0][0] == self._ended:
            tally.times.record(time.perf_counter() - timed.popleft()[1])


class Sender:
    """What one thread does: the messages of several producers, in turn."""

    def __init__(self, tracks: Sequence[Track], contents: Iterator[Content], pace: Pace) -> None:
        self._tracks = tracks
        self._contents = contents
        self._pace = pace

    def run(self) -> None:
        """Send until the pace says that there are no more; then wait until all are through."""
        pace, turn, sent = self._pace, cycle(self._tracks), 0
        pace.begin()
        while due := pace.next():
            for number in range(sent, sent + due):
                next(turn).send(next(self._contents), pace, number)
            sent += due
        for track in self._tracks:
            track.producer.flush()
