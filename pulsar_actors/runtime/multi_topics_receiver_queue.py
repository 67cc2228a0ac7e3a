"""The receiver queue of a consumer of several topics: each topic has a queue of its own, and callers take from all.

Callers take from one topic's queue as from a single queue, by one `pop` for each message. When they have taken what is
opened there, they go on to the next topic that has something, so that no partition keeps another waiting. The messages
of one partition stay in order, and each topic has its own permits. What a topic gets before its consumer is admitted
waits in its queue until then: nobody could acknowledge it.

Topic queues that have something stand in a ring. An actor that adds to a topic queue puts it there, unless it is marked
as standing there. A caller who finds it empty unmarks it, takes it out, and *then* looks whether something has come
meanwhile, so a topic queue with messages never stays outside. No lock is held: a deque's changes are one step each for
the interpreter. While one caller opens an entry, the others wait for it in that topic's queue.

Waiting callers wait for all topics, in one line. The topics' consumers live on several loops; futures are served on
that of the consumer of several topics only.
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

    `ask_to_serve` has `serve` called on the consumer's loop. `awaits_topics`: others may come, as of a pattern.
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
        """Hand out what these have and get, as well."""
        self.topic_queues.update(topic_queues)
        for topic_queue in topic_queues.values():
            topic_queue.is_admitted = True
            self.checkpoint()
            queued = topic_queue.queued
            if queued:
                topic_queue.wake_callers(queued)

    def dismiss(self, topics: Collection[str]) -> None:
        """Remove the queues of these topics, and have all callers look again: what is left may be at its end."""
        for topic in topics:
            topic_queue = self.topic_queues.pop(topic, None)
            if topic_queue is not None:
                topic_queue.is_admitted = False
        if topics:
            self.wake_all_callers()

    def enter_ring(self, topic_queue: "TopicQueue") -> None:
        """Put a topic queue that has something into the ring."""
        if not topic_queue.is_in_ring:
            topic_queue.is_in_ring = True
            self._ring.appendleft(topic_queue)

    def wake_callers(self, messages: int) -> None:
        """Wake as many callers as there are messages for, and have futures served if any wait."""
        self._waiters.wake(messages)
        self._serve_soon()

    def wake_all_callers(self) -> None:
        """Have all callers look again, and futures served."""
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

    @property
    def queued(self) -> int:
        """The number of messages that are here, as far as entries tell."""
        return sum(topic_queue.queued for topic_queue in list(self.topic_queues.values()))

    @property
    def has_messages(self) -> bool:
        """True while there are any; asks only the topic queues in the ring."""
        current = self._current
        has_left = current is not None and current.queued > 0
        return has_left or any(topic_queue.queued for topic_queue in tuple(self._ring)[::-1])

    @property
    def opened_count(self) -> int:
        """The number of those that are in opened entries."""
        return sum(topic_queue.opened_count for topic_queue in list(self.topic_queues.values()))

    @property
    def prefetches(self) -> bool:
        """True: a queue of size 0 is for a single topic."""
        return True

    def is_terminated(self) -> bool:
        """Tell whether all topics were terminated, and no others may come.

        Every caller that waits asks this, so the topic that was the last to give a message is asked first.
        """
        current = self._current
        if self._awaits_topics or (current is not None and current.is_admitted and not current.ended):
            return False
        topic_queues = list(self.topic_queues.values())
        return bool(topic_queues) and all(topic_queue.ended for topic_queue in topic_queues)

    def can_answer(self) -> bool:
        """Tell whether there is a message, or none will come: then a future can end at once."""
        return any(topic_queue.can_answer() for topic_queue in tuple(self._ring)[::-1]) or self.end_reason is not None

    def request_one(self) -> None:
        """Do nothing: permits are granted beforehand."""

    def cancel_request(self) -> None:
        """Do nothing: nothing was asked for."""

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Tell whether the topic is still admitted, and its queue delivers that generation."""
        topic_queue = self.topic_queues.get(topic)
        return topic_queue is not None and topic_queue.still_delivers(topic, generation)

    # Behind both.

    def _next_topic(self) -> Any:  # noqa: ANN401 - a message
        """Go on to the next topic that has something."""
        with DeferInterrupts():
            while self._ring and self.closed is None:
                self._ring.rotate(1)
                self.checkpoint()
                try:
                    topic_queue = self._ring[0]
                except IndexError:  # another caller has just found it empty
                    break
                message = topic_queue.take()
                if message is not None:
                    self._current = topic_queue
                    return message
                self._leave_ring(topic_queue)
        return None

    def _leave_ring(self, topic_queue: "TopicQueue") -> None:
        self.checkpoint()
        topic_queue.is_in_ring = False
        self.checkpoint()
        with suppress(ValueError):  # another caller may have found it empty as well; it stands in front
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
        """Wake callers who wait for any topic; before this one is admitted, nobody waits for it."""
        if self.is_admitted:
            self._parent.enter_ring(self)
            self._parent.wake_callers(messages)

    def wake_all_callers(self) -> None:
        """Have all callers look again."""
        self._parent.wake_all_callers()

    @property
    def end_reason(self) -> Exception | None:
        """None: other topics may have messages."""
        return None
