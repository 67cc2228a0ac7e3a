"""The receiver queue of a consumer of several topics: each topic has its own queue, and callers take from all of them.

Callers take from one topic's queue as from a single queue, by one `pop` for each message. When the opened messages
there are taken, they go on to the next topic that has messages, so that each partition gets its turn. The messages of
one partition stay in order, and each topic has its own permits. Messages of a topic that is not shown to callers yet
stay in its queue: callers could not acknowledge them.

Topic queues that have messages are in a ring, a deque that callers rotate. An actor that adds to a topic queue puts the
queue into the ring, unless it is marked as being there. A caller that finds a queue empty removes the mark, takes the
queue out of the ring, and *then* checks if messages have come meanwhile (see `loop.py`). So a queue with messages never
stays outside. No lock is held: each change of a deque is atomic. While one caller opens an entry, the others wait for
it in that topic's queue.

Waiting callers wait for all topics, in one queue. The consumers of the topics run on several loops; futures are served
only on the loop of the consumer of several topics.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.interrupts import DeferInterrupts
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.receiver_queue import ReceiverQueue, ReceiverQueueSettings
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase


class MultiTopicsReceiverQueue(ReceiverQueueBase):
    """The queues of all topics.

    `ask_to_serve` causes `serve` to be called on the consumer's loop. `awaits_topics` is True if topics may be added,
    as with a pattern.
    """

    __slots__ = ("_ask_to_serve", "_awaits_topics", "_current", "_ring", "topic_queues")

    def __init__(
        self, ask_to_serve: Callable[[], object], interleaving: Interleaving = THREADS, *, awaits_topics: bool = False
    ) -> None:
        super().__init__(interleaving)
        self.topic_queues: dict[str, TopicQueue] = {}  # by topic; callers see them come and go, one by one
        self._ask_to_serve = ask_to_serve
        self._awaits_topics = awaits_topics
        self._ring: deque[TopicQueue] = deque()
        self._current: TopicQueue | None = None

    # The actors' side.

    def admit(self, topic_queues: "Mapping[str, TopicQueue]") -> None:
        """Show topic queues to callers: their messages are handed out from now on."""
        self.topic_queues.update(topic_queues)
        for topic_queue in topic_queues.values():
            topic_queue.is_admitted = True
            self.checkpoint()
            queued = topic_queue.queued
            if queued:
                topic_queue.wake_callers(queued)

    def dismiss(self, topics: Collection[str]) -> None:
        """Remove the queues of these topics, and wake all callers: the topics that are left may all be terminated."""
        for topic in topics:
            topic_queue = self.topic_queues.pop(topic, None)
            if topic_queue is not None:
                topic_queue.is_admitted = False
        if topics:
            self.wake_all_callers()

    def enter_ring(self, topic_queue: "TopicQueue") -> None:
        """Put a topic queue that has messages into the ring."""
        if not topic_queue.is_in_ring:
            topic_queue.is_in_ring = True
            self._ring.appendleft(topic_queue)

    def wake_callers(self, messages: int) -> None:
        """Wake as many callers as there are messages, and serve futures if any wait."""
        self._waiters.wake(messages)
        self._serve_soon()

    def wake_all_callers(self) -> None:
        """Wake all callers, and serve futures."""
        self._waiters.wake_all()
        self._serve_soon()

    def end(self, error: Exception) -> None:
        """Hand out nothing more."""
        if self.closed is None:
            self.closed = error
        self.checkpoint()
        self._waiters.wake_all()
        self.serve()

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""
        self.closed = error
        self._ring.clear()
        self._current = None
        for topic_queue in list(self.topic_queues.values()):
            topic_queue.forget(error)

    # The callers' side.

    def take(self) -> Any:  # noqa: ANN401 - a message
        """Take the next message, or None if there is none now."""
        current = self._current
        try:
            return self._next_topic() if current is None else current.next_messages.pop()
        except IndexError:
            return self._next_topic()

    def take_many(self, most: int, messages: list[Any]) -> None:
        """Take the messages that there are now, so many at most, and append them to a list: of each topic in turn."""
        with DeferInterrupts():
            most += len(messages)
            while self._ring and len(messages) < most and self.closed is None:
                topic_queue = self._next_in_ring()
                if topic_queue is None:
                    break
                count = len(messages)
                topic_queue.take_many(most - count, messages)
                if len(messages) > count:
                    self._current = topic_queue
                else:
                    self._leave_ring(topic_queue)

    @property
    def queued(self) -> int:
        """The number of queued messages, by the counts that entries declare."""
        return sum(topic_queue.queued for topic_queue in list(self.topic_queues.values()))

    @property
    def has_messages(self) -> bool:
        """True while there are messages; asks only the topic queues in the ring."""
        current = self._current
        has_left = current is not None and current.queued > 0
        return has_left or any(topic_queue.queued for topic_queue in tuple(self._ring)[::-1])

    @property
    def opened_count(self) -> int:
        """The number of queued messages that are in opened entries."""
        return sum(topic_queue.opened_count for topic_queue in list(self.topic_queues.values()))

    @property
    def prefetches(self) -> bool:
        """True: a queue of size 0 is for a single topic."""
        return True

    def is_terminated(self) -> bool:
        """Return whether all topics were terminated, and no topics may be added.

        Every caller that waits asks this, so the topic that was the last to give a message is asked first.
        """
        current = self._current
        if self._awaits_topics or (current is not None and current.is_admitted and not current.ended):
            return False
        topic_queues = list(self.topic_queues.values())
        return bool(topic_queues) and all(topic_queue.ended for topic_queue in topic_queues)

    def can_answer(self) -> bool:
        """Return whether a future can end at once: there is a message, or none will come."""
        return any(topic_queue.can_answer() for topic_queue in tuple(self._ring)[::-1]) or self.end_reason is not None

    def request_one(self) -> None:
        """Do nothing: permits are granted in advance."""

    def cancel_request(self) -> None:
        """Do nothing: no message was requested."""

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Return whether the topic is still shown to callers, and its queue still delivers that generation."""
        topic_queue = self.topic_queues.get(topic)
        return topic_queue is not None and topic_queue.still_delivers(topic, generation)

    # Behind both.

    def _next_topic(self) -> Any:  # noqa: ANN401 - a message
        """Take a message from the next topic that has one."""
        with DeferInterrupts():
            while self._ring and self.closed is None:
                topic_queue = self._next_in_ring()
                if topic_queue is None:
                    break
                message = topic_queue.take()
                if message is not None:
                    self._current = topic_queue
                    return message
                self._leave_ring(topic_queue)
        return None

    def _next_in_ring(self) -> "TopicQueue | None":
        self._ring.rotate(1)
        self.checkpoint()
        try:
            return self._ring[0]
        except IndexError:  # another caller has just found it empty
            return None

    def _leave_ring(self, topic_queue: "TopicQueue") -> None:
        self.checkpoint()
        topic_queue.is_in_ring = False
        self.checkpoint()
        with suppress(ValueError):  # another caller may have found it empty, too, and removed it
            self._ring.remove(topic_queue)
        self.checkpoint()
        if topic_queue.queued:
            self.enter_ring(topic_queue)

    def _serve_soon(self) -> None:
        if self._receive_futures.pending or self._receive_futures.claimed is not None:
            self._ask_to_serve()


class TopicQueue(ReceiverQueue):
    """The queue of one topic among several."""

    __slots__ = ("_parent", "is_admitted", "is_in_ring")

    def __init__(
        self,
        parent: MultiTopicsReceiverQueue,
        settings: ReceiverQueueSettings,
        tell: Callable[[object], object],
        interleaving: Interleaving,
    ) -> None:
        super().__init__(settings, tell, interleaving)
        self._parent = parent
        self.is_admitted = False
        self.is_in_ring = False

    def wake_callers(self, messages: int) -> None:
        """Wake callers that wait for any topic, unless this topic is not shown to them yet."""
        if self.is_admitted:
            self._parent.enter_ring(self)
            self._parent.wake_callers(messages)

    def wake_all_callers(self) -> None:
        """Wake all callers."""
        self._parent.wake_all_callers()

    @property
    def end_reason(self) -> Exception | None:
        """None: other topics may have messages."""
        return None
