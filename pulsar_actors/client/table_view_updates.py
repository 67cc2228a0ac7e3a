"""The updates of a table view: they read messages, keep the latest value of each key, and call listeners.

Only the view's listener thread, one of the workers of the engine, takes messages and changes the values. Any thread
reads them: it copies the dict, which is one step for the interpreter. So the values of a copy are those of one moment,
no lock is held while a user's code runs, and a listener may use the view. A caller that waits on this very thread, in
its own or another listener, takes the messages meanwhile; listeners that are behind get them afterwards.

A listener has a queue of updates that it was not called with yet. It starts at the moment of the copy of the values
that the listener gets first, so there is neither a gap between the two nor an update twice.

Nothing here refers to the `TableView`, so that a view without listeners still closes when the last reference to it is
gone.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar, cast

from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.enums import ConsumerCryptoFailureAction
from pulsar_actors.client.message import Message, ack_key_of, table_update_of
from pulsar_actors.client.multi_topics_consumer import MultiTopicsConsumerState
from pulsar_actors.exceptions import CryptoError, Timeout
from pulsar_actors.machines.consumer_events import GetLastMessageId, LastMessage
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.machines.trackers.table_view_progress import MessagePlace, TableViewProgress
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.engine import Engine, Worker
from pulsar_actors.runtime.future import SlimFuture, copy_error, settle
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.message_id import EARLIEST

MAX_MESSAGES_IN_A_ROW: Final = 100
"""After so many messages it is the turn of the other consumers of the listener thread."""

ASK_AGAIN_SECONDS: Final = 1.0
"""Seconds after which a view that waits for messages asks if they have expired meanwhile."""

TableViewListener = Callable[[str, Any], object]
T = TypeVar("T")


class Undecodable:
    """Stands for a value that the schema could not decode."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def error(self) -> Exception:
        """A copy of the error, to raise."""
        return copy_error(self._error)


class ListenerQueue:
    """A listener, and the updates that it was not called with yet. They wait there until `is_ready`."""

    __slots__ = ("is_ended", "is_ready", "listener", "updates")

    def __init__(self, listener: TableViewListener) -> None:
        self.listener = listener
        self.updates: deque[tuple[str, Any]] = deque()
        self.is_ready = False
        self.is_ended = False


class _SkippedMessages:
    """The messages that brokers have skipped, because they have expired, or because an administrator wanted it.

    They do not arrive, and brokers do not tell. So while calls wait, the brokers are asked once in a while how far the
    subscriptions are. `wake` is called with each answer, and when it is time to ask again.
    """

    __slots__ = ("_asked_until", "_engine", "_is_due", "_is_timed", "_up_to", "_wake")

    def __init__(self, engine: Engine, wake: Callable[[object], object]) -> None:
        self._engine = engine
        self._wake = wake
        self._is_due = False
        self._is_timed = False
        self._asked_until: dict[str, float] = {}  # the deadlines of the open questions, by topic
        self._up_to: dict[str, tuple[int, EntryKey]] = {}  # after so many moves

    def up_to(self, topic: str, moves: int) -> EntryKey:
        """Return the last entry of a topic that the broker does not send any more, as it has last said."""
        known_moves, entry = self._up_to.get(topic, (moves, EARLIEST.position))
        return entry if known_moves == moves else EARLIEST.position

    def ask(self, awaited: Mapping[str, ConsumerState]) -> None:
        """Ask about the topics of which messages are awaited, if it is time to."""
        if not awaited:
            return
        now = self._engine.now()
        if self._is_due:
            self._is_due = False
            for topic, state in awaited.items():
                if self._asked_until.get(topic, now) <= now:
                    self._ask(topic, state, now + state.operation_timeout)
        if not self._is_timed:
            self._is_timed = True
            loop = self._engine.loops[0]
            loop.post(lambda due: loop.later(ASK_AGAIN_SECONDS, due, None), self._due)

    def _ask(self, topic: str, state: ConsumerState, deadline: float) -> None:
        self._asked_until[topic] = deadline
        done: SlimFuture[LastMessage] = SlimFuture()
        done.add_done_callback(partial(self._answered, topic, _moves_of(state)))
        tell(state.address, GetLastMessageId(done, deadline))

    def _answered(self, topic: str, moves: int, answer: "Future[LastMessage]") -> None:
        self._asked_until.pop(topic, None)
        if answer.exception() is None:
            self._up_to[topic] = moves, answer.result().skipped_up_to
            self._wake(None)

    def _due(self, _: object) -> None:
        self._is_timed = False
        self._is_due = True
        self._wake(None)


class TableViewUpdates:
    """The updates of one table view, from the messages of a reader. `what` names the view in errors and in the log."""

    def __init__(self, state: AnyReceivingState, worker: Worker, what: str) -> None:
        self.values: dict[str, Any] = {}
        self._state = state
        self._queue = state.receiver_queue
        self._pending_calls = state.link.pending_calls
        self._worker = worker
        self._what = what
        self._progress: TableViewProgress[SlimFuture[None]] = TableViewProgress()
        self._skips = _SkippedMessages(state.engine, self._arrived)
        self._listeners: list[ListenerQueue] = []
        self._is_calling = False
        self._is_stopped = False
        self._arrival: SlimFuture[None] | None = None  # completed when messages have arrived
        self._caller: SlimFuture[None] | None = None  # of a caller that waits on the listener thread

    @property
    def _is_over(self) -> bool:
        """True once the view is closed: it keeps its values, and tells nobody of updates."""
        return self._is_stopped or self._state.closed is not None

    # In any thread.

    def start(self) -> None:
        """Read messages from now on."""
        self._worker.submit(self._take_turn)

    def stop(self) -> None:
        """Change no value, and call no listener any more, after its current call."""
        self._is_stopped = True

    def moves(self) -> dict[str, int]:
        """Return how often each topic has gone to another cluster. Each move counts as a seek; there are no others."""
        return {topic: _moves_of(one) for topic, one in _members(self._state).items()}

    def wait_until_read(self, last_messages: Mapping[str, MessagePlace], timeout: float | None, what: str) -> None:
        """Wait until these messages are read, or their topics gone elsewhere; `what` names the call in errors."""
        done: SlimFuture[None] = self._pending_calls.track(SlimFuture())
        if self._worker.is_here():
            self._await(last_messages, done)
            self._read_until(done, timeout, what)
            return
        self._worker.submit(partial(self._await, last_messages, done))
        try:
            self._state.engine.block(done, timeout, what)
        finally:
            self._pending_calls.untrack(done)

    def add_listener(self, listener: TableViewListener, *, with_values: bool) -> None:
        """Call a listener with each update; before that, in the caller's thread, with each value that there is."""
        queue = ListenerQueue(listener)
        what = f"adding a listener to {self._what}"
        try:
            values = self._on_worker(partial(self._add, queue), what)
            if with_values:
                call_with_each(listener, values)
        except BaseException:
            queue.is_ended = True
            raise
        queue.is_ready = True
        self._worker.submit(self._call_listeners)

    def remove_listener(self, listener: TableViewListener) -> None:
        """Drop a listener before the next update."""
        for queue in tuple(self._listeners):
            if queue.listener == listener:
                queue.is_ended = True

    def _on_worker(self, call: Callable[[], T], what: str) -> T:
        if self._worker.is_here():
            return call()
        done: SlimFuture[T] = self._pending_calls.track(SlimFuture())
        self._worker.submit(lambda: self._pending_calls.resolve(done, call()))
        return self._state.engine.block(done, None, what)

    def _arrived(self, _: object) -> None:
        """Let the listener thread read. Called on a loop."""
        caller = self._caller
        if caller is not None:
            settle(caller, None)
        self._worker.submit(self._take_turn)

    # On the listener thread.

    def _add(self, queue: ListenerQueue) -> dict[str, Any]:
        self._listeners.append(queue)
        return self.values.copy()

    def _take_turn(self) -> None:
        """Read messages, and call listeners. Leave the thread to others from time to time."""
        is_not_done = self._read_some()
        self._call_listeners()
        if is_not_done:
            self._worker.submit(self._take_turn)

    def _await(self, last_messages: Mapping[str, MessagePlace], done: SlimFuture[None]) -> None:
        self._finish(self._progress.wait_for(last_messages, done))
        self._note_passed()

    def _read_until(self, done: SlimFuture[None], timeout: float | None, what: str) -> None:
        """Read messages until a call is done, on behalf of a caller on this thread."""
        engine = self._state.engine
        deadline = math.inf if timeout is None else engine.now() + timeout
        try:
            while not done.done():
                caller = self._caller = SlimFuture[None]()
                while not done.done() and self._read_some():
                    pass
                if not done.done():
                    engine.block(caller, None if timeout is None else max(0.0, deadline - engine.now()), what)
            done.result(0)
        except Timeout:
            if not done.done():
                raise Timeout(f"{what} took longer than {timeout:g} s") from None
            done.result(0)
        finally:
            self._caller = None
            self._pending_calls.untrack(done)
            self._worker.submit(self._take_turn)

    def _read_some(self) -> bool:
        """Read up to `MAX_MESSAGES_IN_A_ROW` messages. Return whether there may be more."""
        self._ask_for_arrivals()
        take, apply, read, is_empty = self._queue.take, self._apply, dict[str, Message](), False
        for _ in range(MAX_MESSAGES_IN_A_ROW):
            message = take()
            if message is None or self._is_over:
                is_empty = True
                break
            apply(message)
            read[message.topic_name()] = message
        for last in read.values():  # the progress of each topic is that of its last message
            message_id, generation, topic = ack_key_of(last)
            self._finish(self._progress.read(topic, MessagePlace(generation.seek, message_id)))
        if is_empty:
            self._note_passed()
        return not is_empty

    def _ask_for_arrivals(self) -> None:
        """Be told of the next messages; the caller then looks if there are some already."""
        if (self._arrival is None or self._arrival.done()) and self._queue.closed is None:
            self._arrival = SlimFuture()
            self._arrival.add_done_callback(self._arrived)
            self._queue.wait(self._arrival)

    def _apply(self, message: Message) -> None:
        key, is_deletion = table_update_of(message)
        if key is None:
            return
        if is_deletion:
            self.values.pop(key, None)
            self._note_update(key, None)
            return
        try:
            value = message.value()
        except Exception as error:  # noqa: BLE001 - a schema may be the user's
            LOG.warning(
                "%s cannot decode the value of message %s: %s", self._what, message.message_id(), type(error).__name__
            )
            self.values[key] = Undecodable(error)
        else:
            if self._is_over:  # a lookup of its schema may have taken long
                return
            self.values[key] = value
            self._note_update(key, value)

    def _note_update(self, key: str, value: object) -> None:
        for queue in self._listeners:
            queue.updates.append((key, value))

    def _note_passed(self) -> None:
        """Note which awaited messages will not arrive, now that all messages are taken."""
        awaited = self._progress.awaited
        if not awaited:
            return
        members = _members(self._state)
        if self._missing():
            self._finish(self._progress.drop_all())
            return
        for topic in awaited & members.keys():
            queue, moves = members[topic].receiver_queue, _moves_of(members[topic])
            skipped = self._skips.up_to(topic, moves)
            furthest = queue.progress.furthest or EARLIEST.position  # after `moves`: never an entry of before a move
            if not queue.queued:
                self._finish(self._progress.passed(topic, moves, max(furthest, skipped)))
        self._finish(self._progress.keep_only(members))
        self._skips.ask({topic: members[topic] for topic in self._progress.awaited & members.keys()})

    def _missing(self) -> int:
        """Return how many entries were not decrypted, and not to be discarded."""
        if self._state.options.crypto_failure_action is not ConsumerCryptoFailureAction.FAIL:
            return 0
        return sum(one.receiver_queue.undecryptable for one in _members(self._state).values())

    def _finish(self, calls: Sequence[SlimFuture[None]]) -> None:
        missing = self._missing() if calls else 0
        for done in calls:
            if missing:
                text = f"{self._what} is incomplete: no key decrypts {missing:,} of its entries, which the log names"
                self._pending_calls.fail(done, CryptoError(text))
            else:
                self._pending_calls.resolve(done, None)

    def _call_listeners(self) -> None:
        """Call listeners with their updates, unless one of them is being called already."""
        if self._is_calling:
            return
        self._is_calling = True
        try:
            self._listeners = [queue for queue in self._listeners if not queue.is_ended]
            while waiting := [queue for queue in self._listeners if queue.is_ready and queue.updates]:
                if self._is_over:
                    break
                for queue in waiting:
                    self._call_listener(queue)
        finally:
            self._is_calling = False

    def _call_listener(self, queue: ListenerQueue) -> None:
        while queue.updates and not self._is_over:
            key, value = queue.updates.popleft()
            try:
                queue.listener(key, value)
            except BaseException:  # noqa: BLE001 - it is not ours; sys.exit() does not end the thread, which others share
                LOG.exception("a listener of %s raised", self._what)


def call_with_each(listener: TableViewListener, values: Mapping[str, Any]) -> None:
    """Call a listener with each value that could be decoded."""
    for key, value in values.items():
        if type(value) is not Undecodable:
            listener(key, value)


def _moves_of(state: ConsumerState) -> int:
    return state.receiver_queue.generation.seek


def _members(state: AnyReceivingState) -> dict[str, ConsumerState]:
    """Return the states of the consumers behind a reader, by topic."""
    if isinstance(state, MultiTopicsConsumerState):
        return dict(state.members)
    return {state.options.known_topics[0]: cast("ConsumerState", state)}
