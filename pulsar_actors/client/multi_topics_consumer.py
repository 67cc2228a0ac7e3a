"""The consumer and the reader of a partitioned topic, of several topics or of a pattern.

Each message and each message id has its topic, and a call for a message goes to the consumer of that topic. A call for
all topics ends when all consumers have answered.
"""

import math
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pulsar_actors.client.build_consumer import ReaderStart, start_consumer
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consumer_state import ConsumerListeners, ConsumerState, ReceivingState, new_consumer_listeners
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.dead_letters import RetryLetters
from pulsar_actors.client.enums import RegexSubscriptionMode
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.multi_topics_common import ReportToSet, new_multi_topics_actor, report_lifecycle
from pulsar_actors.client.reader import Reader, leaves_messages
from pulsar_actors.client.receive_path import OneOrMore
from pulsar_actors.client.receiving import ReceivingHandle, seek_target
from pulsar_actors.client.stats import BrokerConsumerStats
from pulsar_actors.client.validation import flag
from pulsar_actors.exceptions import InvalidArgument, OperationNotSupported, PulsarException
from pulsar_actors.machines.consumer_events import (
    GetConsumerStats,
    GetLastMessageId,
    LastMessage,
    ResizeQueue,
    Seek,
    Unsubscribe,
)
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.machines.multi_topics_events import (
    AskMembers,
    CreateMember,
    MultiTopicsSettings,
    UnsubscribeAll,
    UpdateMembers,
)
from pulsar_actors.machines.trackers.flow_permits import queue_size_of_partition
from pulsar_actors.machines.trackers.subscribed_topics import TopicPattern
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.consumer_actor import SendDeadLetter, ServeReceiveFutures
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.multi_topics_actor import MultiTopicsActor, TopicSearch
from pulsar_actors.runtime.multi_topics_receiver_queue import MultiTopicsReceiverQueue, TopicQueue
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.wire.message_id import EARLIEST, LATEST
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetTopicsOfNamespace
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pulsar_actors.client.transaction import Transaction


class MultiTopicsConsumerState(ReceivingState[MultiTopics, MultiTopicsReceiverQueue]):
    """The state of a consumer or reader of several topics.

    `members` are the consumers by topic. They are added and removed one by one, while other threads read them.
    """

    __slots__ = ("members",)

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        actor: "MultiTopicsActor[ConsumerMembers]",
        options: ConsumerOptions,
        operation_timeout: float,
    ) -> None:
        members = actor.members
        queue, listeners = members.receiver_queue, members.listeners
        super().__init__(engine, link, actor.machine, actor.actor_ref, options, operation_timeout, queue, listeners)
        self.members = members.by_topic

    def covers(self, topic: TopicName) -> bool:
        """Return whether a topic is one of these, or matches the pattern, even if it has no consumer now."""
        pattern = self.options.topic
        is_named = not {str(topic), str(topic.base)}.isdisjoint(self.options.known_topics)
        return is_named or (isinstance(pattern, re.Pattern) and bool(TopicPattern(pattern).sort((str(topic),))))


class MultiTopicsHandle(ReceivingHandle):
    """The base of a consumer and a reader of several topics.

    It comes before Consumer or Reader in the list of bases.
    """

    _multi_state: MultiTopicsConsumerState

    def is_connected(self) -> bool:
        """Return whether the consumers of all topics are registered with brokers now."""
        return self._multi_state.closed is None and all(state.machine.is_bound for state in self._members())

    def seek(self, messageid: MessageId | int) -> None:
        """Move one topic to a message, or all topics to a time, to their start or to their end.

        The id of a received message has its topic. An id that is read from bytes needs the topic:
        `MessageId.deserialize(data, topic)`.
        """
        target = seek_target(messageid)
        self._multi_state.engine.refuse_on_io_thread("seek()", "another thread")
        self._refuse_if_closed()
        what = f"seek() of {self._what}"
        if not isinstance(messageid, MessageId) or target in {EARLIEST, LATEST}:
            self._call(partial(AskMembers, request=partial(Seek, target=target)), what)
            return
        member = self._member_of(messageid.topic_name(), messageid.wire)
        if member is None:
            raise InvalidArgument(f"{self._what} has nothing of {messageid.topic_name()} any longer")
        self._call_member(member, partial(Seek, target=target), what)

    def _members(self) -> Collection[ConsumerState]:
        return list(self._multi_state.members.values())

    def _member_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerState | None:
        """Find the consumer of a message; None if its topic was one of these and was deleted.

        Without a topic the partition number decides, if only one topic has such a partition.
        """
        members, partition = self._multi_state.members, message_id.partition
        if topic is None:
            found = [state for name, state in list(members.items()) if name.endswith(f"-partition-{partition}")]
            if len(found) != 1:
                raise OperationNotSupported(
                    f"{self._what} has several topics, and {message_id} is not known to be of one of them: give the "
                    "message, its message_id(), or MessageId.deserialize(data, topic)"
                )
            return found[0]
        name = TopicName.parse(topic)
        if str(name) not in members and partition >= 0 > name.partition_index:
            name = name.partition(partition)
        if str(name) not in members and not self._multi_state.covers(name):
            raise InvalidArgument(f"{message_id} is a message of {topic}, which is none of {self._what}")
        return members.get(str(name))

    def _call_member(self, member: ConsumerState, ask: Callable[[SlimFuture[Any]], object], what: str) -> Any:  # noqa: ANN401 - each call has its own answer
        """Make a request to the consumer of one topic, and wait for the answer."""
        done: SlimFuture[Any] = SlimFuture()
        member.link.pending_calls.track(done)
        tell(member.address, ask(done))
        return self._multi_state.engine.block(done, None, what)

    def _get_last_messages(self, timeout: float = math.inf) -> dict[str, LastMessage]:
        """Get the last message of each persistent topic. Non-persistent topics have none at the broker."""
        state = self._multi_state
        state.engine.refuse_on_io_thread("asking for the last message", "another thread")
        self._refuse_if_closed()
        deadline = state.engine.now() + min(timeout, state.operation_timeout)
        what = f"asking {self._what} for the last message"
        ask = partial(AskMembers, request=partial(GetLastMessageId, deadline=deadline), persistent=True)
        answers: dict[str, LastMessage] = self._call(ask, what)
        return answers


class MultiTopicsConsumer(MultiTopicsHandle, Consumer):
    """The consumer of several topics."""

    def __init__(
        self, state: MultiTopicsConsumerState, topic: str, client: object, retry_letters: RetryLetters | None = None
    ) -> None:
        super().__init__(state, client, topic, retry_letters)
        self._multi_state = state

    def acknowledge(self, message: OneOrMore, *, transaction: "Transaction | None" = None) -> None:
        """Acknowledge a message, or each of a list, of any of the topics: it is not delivered again.

        A message whose topic has been deleted since needs no acknowledgement, and is ignored.
        """
        if transaction is not None:
            self._wait_in(transaction, message, cumulative=False)
            return
        if self._acks_are_plain and type(message) is Message and self._receiver_queue.closed is None:
            opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            member = self._multi_state.members.get(opened.topic)
            if member is not None and type(opened) is OpenedEntry:
                member.ack_queue.acknowledge_opened(opened, message._index)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                return
        self._wait(self._acknowledge(message, cumulative=False, waits=True))

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerState | None:
        """Return the state of the consumer of a message; None if its topic has been deleted."""
        self._refuse_if_closed()
        return self._member_of(topic, message_id)

    def get_last_message_id(self) -> MessageId:
        """Raise OperationNotSupported: each topic has a last message, and their ids have no order."""
        raise OperationNotSupported(
            f"{self._what} has several topics, each with a last message: ask a consumer of one of them, see "
            "get_topic_partitions()"
        )

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription on all topics, and end the consumer; `force` closes others that use it.

        If it fails for some topics, the error names them, and the consumer continues with those.
        """
        flag("force", force)
        self._state.engine.refuse_on_io_thread("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(partial(UnsubscribeAll, request=partial(Unsubscribe, force=force)), f"unsubscribe() of {self._what}")

    def _ask_for_stats(self, deadline: float, what: str) -> BrokerConsumerStats:
        answers: dict[str, Any] = self._call(
            partial(AskMembers, request=partial(GetConsumerStats, deadline=deadline)), what
        )
        return BrokerConsumerStats.of_all([BrokerConsumerStats.of(answer) for answer in answers.values()])


class MultiTopicsReader(MultiTopicsHandle, Reader):
    """The reader of several topics."""

    def __init__(self, state: MultiTopicsConsumerState, topic: str, client: object) -> None:
        super().__init__(state, client, topic)
        self._multi_state = state

    def has_message_available(self) -> bool:
        """Return whether there is a message to read now, on any topic.

        For a non-persistent topic, only messages that have arrived count, because brokers do not keep its messages.
        """
        if self._receiver_queue.has_messages or self._receiver.has_given_back:
            return True
        lasts = self._get_last_messages()
        return any(self._leaves(topic, last) for topic, last in lasts.items()) or self._receiver_queue.has_messages

    def go_to_last(self) -> None:
        """Seek to the last message of each persistent topic, so that these messages are read first."""
        for topic, last in self._get_last_messages().items():
            if last.message_id.entry_id >= 0 and topic in self._multi_state.members:
                self._call_member(
                    self._multi_state.members[topic], partial(Seek, target=last.message_id), f"seek() of {topic}"
                )

    def _leaves(self, topic: str, last: LastMessage) -> bool:
        member = self._multi_state.members.get(topic)
        return member is not None and leaves_messages(member, last)


NewDeadLetterSender = Callable[[ConsumerOptions], SendDeadLetter | None]
"""Makes the sender of dead letters of one topic."""


class ConsumerMembers:
    """The consumers of all topics. The actor calls the methods on its loop; callers read the public attributes.

    Each topic has its own queue, with its own permits. The queues of all topics together hold no more messages than the
    options allow. They share this room anew when topics come or go; what was granted before is used up first.

    A reader reads partitions that are added later from their first message on, because all their messages are newer
    than the reader. For a durable subscription no such rule is needed: brokers create it on each new partition, at the
    partition's start.
    """

    __slots__ = (
        "_context", "_made", "_new_dead_letter_sender", "_options", "_queue_size", "_report", "_start", "by_topic",
        "listeners", "receiver_queue",
    )  # fmt: skip

    def __init__(
        self,
        context: ClientContext,
        options: ConsumerOptions,
        start: ReaderStart | None,
        new_dead_letter_sender: NewDeadLetterSender,
        listeners: ConsumerListeners,
        report: ReportToSet,
    ) -> None:
        self.by_topic: dict[str, ConsumerState] = {}
        self.listeners = listeners
        self.receiver_queue = MultiTopicsReceiverQueue(
            partial(report, ServeReceiveFutures()), context.engine.interleaving, awaits_topics=not options.topics
        )
        self._context = context
        self._options = options
        self._start = start
        self._new_dead_letter_sender = new_dead_letter_sender
        self._report = report
        self._made: dict[int, ConsumerState] = {}
        self._queue_size = options.receiver_queue_size

    def create(self, order: CreateMember) -> ActorRef:
        """Start the consumer of a topic."""
        member, topic, _, among, may_create, later = order
        self._share_room(among)
        options, start = self._options.replace(topic=topic, receiver_queue_size=self._queue_size), self._start
        if later and start is not None:
            start = start._replace(message_id=EARLIEST)
        self._made[member] = state = start_consumer(
            self._context,
            options,
            start,
            self._new_dead_letter_sender(options),
            listeners=self.listeners,
            new_queue=partial(TopicQueue, self.receiver_queue),
            may_create=may_create,
        )
        report_lifecycle(state, member, self._report, lambda: "")
        return state.address

    def track(self, member: int, call: SlimFuture[Any]) -> None:
        """Add a pending call to a consumer: it fails if the consumer ends."""
        self._made[member].link.pending_calls.track(call)

    def remove(self, member: int) -> None:
        """Remove a consumer that has ended. The others get its room."""
        self._made.pop(member, None)
        self._share_room(max(1, len(self._made)))

    def update(self, update: UpdateMembers) -> None:
        """Show consumers to callers, and hide others."""
        came = {topic: self._made[member] for topic, member in update.members.items()}
        for topic in update.gone:
            self.by_topic.pop(topic, None)
        self.by_topic.update(came)
        self.receiver_queue.dismiss(update.gone)
        self.receiver_queue.admit({topic: cast("TopicQueue", state.receiver_queue) for topic, state in came.items()})
        self._notify_listener()

    def partitions_grown(self, topic: str, partitions: int) -> None:
        """Call the interceptors with the new number of partitions."""
        if self.listeners.interceptors is not None:
            self.listeners.interceptors.partitions_changed(topic, partitions)

    def serve(self) -> None:
        """Give messages to the futures of `receive_async`."""
        self.receiver_queue.serve()

    def waited_for(self) -> tuple[str, ...]:
        """Return nothing: nothing waits for a consumer that has to be created still."""
        return ()

    def close(self, error: PulsarException) -> None:
        """Stop handing out messages."""
        self.end(error)

    def end(self, error: PulsarException) -> None:
        """Stop handing out messages."""
        self.receiver_queue.end(error)
        self._notify_listener()

    def _notify_listener(self) -> None:
        if self.listeners.runner is not None:
            self.listeners.runner.messages_arrived()

    def _share_room(self, among: int) -> None:
        """Give each queue its share of the room."""
        options = self._options
        together = options.max_total_receiver_queue_size_across_partitions
        size = queue_size_of_partition(options.receiver_queue_size, together, among)
        if size == self._queue_size:
            return
        self._queue_size = size
        for state in self._made.values():
            tell(state.address, ResizeQueue(size))


_MODES = {
    RegexSubscriptionMode.PersistentOnly: CommandGetTopicsOfNamespace.PERSISTENT,
    RegexSubscriptionMode.NonPersistentOnly: CommandGetTopicsOfNamespace.NON_PERSISTENT,
    RegexSubscriptionMode.AllTopics: CommandGetTopicsOfNamespace.ALL,
}


def start_multi_topics_consumer(
    context: ClientContext,
    options: ConsumerOptions,
    start: ReaderStart | None,
    new_dead_letter_sender: NewDeadLetterSender,
    partitions: int | None,
) -> MultiTopicsConsumerState:
    """Start the consumer or reader of several topics, or of one that has so many `partitions`.

    With `enable_retry` the retry topic is one of them.
    """
    engine, topic = context.engine, topics_text(options)
    link = HandleLink(engine.interleaving)
    listeners = new_consumer_listeners(options, link, topic, context.next_worker)
    pattern = TopicPattern(options.topic) if isinstance(options.topic, re.Pattern) else None
    names = [TopicName.parse(name) for name in options.known_topics]
    interval = context.partitions_update_interval
    if pattern is not None:
        interval = min(float(options.pattern_auto_discovery_period), interval or math.inf)
    settings = MultiTopicsSettings(
        what=f"{'the consumer' if start is None else 'the reader'} of {topic}",
        topics={str(name): 0 if name.partition_index >= 0 else partitions for name in names},
        has_pattern=pattern is not None,
        watches=pattern is not None and options.regex_subscription_mode is not RegexSubscriptionMode.NonPersistentOnly,
        look_again=interval,
    )
    new_members = partial(ConsumerMembers, context, options, start, new_dead_letter_sender, listeners)
    mode, new_backoff = _MODES[options.regex_subscription_mode], context.handle_settings.backoff
    search = TopicSearch(pattern, mode, context.operation_timeout, new_backoff)
    actor = new_multi_topics_actor(context, link, settings, new_members, search)
    state = MultiTopicsConsumerState(engine, link, actor, options, context.operation_timeout)
    context.start(actor, state)
    return state


def topics_text(options: ConsumerOptions) -> str:
    """Return the text of `topic()` of a consumer of several topics: their names, or the pattern."""
    if isinstance(options.topic, re.Pattern):
        return TopicPattern(options.topic).text
    return ", ".join(str(TopicName.parse(name)) for name in options.topics)
