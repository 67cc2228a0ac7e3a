"""What consumers and readers of several topics are alike in, as users hold them.

Each message, and the id of each, knows the topic it is of, and what is done with it is that topic's business. What is
done to all topics ends when all have answered.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.receiving_handle import ReceivingHandle, seek_target
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.exceptions import InvalidArgument, OperationNotSupported
from pulsar_actors.machines.consumer_events import AskForLast, LastMessage, Seek
from pulsar_actors.machines.topic_set_events import Ask
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.wire.message_id import EARLIEST, LATEST
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName


class SeveralTopics(ReceivingHandle):
    """Goes before Consumer or Reader among the bases of one that has several topics."""

    _set: ConsumerSetParts

    def is_connected(self) -> bool:
        """Tell whether brokers serve all its topics now."""
        return self._set.closed is None and all(parts.machine.is_bound for parts in self._members())

    def seek(self, messageid: MessageId | int) -> None:
        """Go to a message of one topic, which alone is moved; or with all topics to a time, their start or their end.

        Which topic a message belongs to is said by its id, if it came from here; one that was read from bytes has to be
        given the topic: `MessageId.deserialize(data, topic)`.
        """
        target = seek_target(messageid)
        self._set.engine.refuse_inside("seek()", "another thread")
        self._refuse_if_closed()
        what = f"seek() of {self._what}"
        if not isinstance(messageid, MessageId) or target in {EARLIEST, LATEST}:
            self._call(partial(Ask, request=partial(Seek, target=target)), what)
            return
        member = self._member_of(messageid.topic_name(), messageid.wire)
        if member is None:
            raise InvalidArgument(f"{self._what} has nothing of {messageid.topic_name()} any longer")
        self._put(member, partial(Seek, target=target), what)

    def _members(self) -> Collection[ConsumerParts]:
        return list(self._set.members.values())

    def _member_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerParts | None:
        """Find the consumer whose message it is; None if its topic was among these, and has gone.

        It goes by the topic, or by the partition where no topic is known and only one has a partition of that number.
        """
        members, partition = self._set.members, message_id.partition
        if topic is None:
            found = [parts for name, parts in list(members.items()) if name.endswith(f"-partition-{partition}")]
            if len(found) != 1:
                raise OperationNotSupported(
                    f"{self._what} has several topics, and {message_id} is not known to be of one of them: give the "
                    "message, its message_id(), or MessageId.deserialize(data, topic)"
                )
            return found[0]
        name = TopicName.parse(topic)
        if str(name) not in members and partition >= 0 > name.partition_index:
            name = name.partition(partition)
        if str(name) not in members and not self._set.covers(name):
            raise InvalidArgument(f"{message_id} is a message of {topic}, which is none of {self._what}")
        return members.get(str(name))

    def _put(self, member: ConsumerParts, ask: Callable[[SlimFuture[Any]], object], what: str) -> Any:  # noqa: ANN401 - each call has its own answer
        """Ask one member for something, and wait until that has ended."""
        done: SlimFuture[Any] = SlimFuture()
        member.ties.debts.owe(done)
        tell(member.address, ask(done))
        return self._set.engine.block(done, None, what)

    def _ask_all_for_last(self) -> dict[str, LastMessage]:
        """Ask for the last message of each topic that is stored: of others, brokers keep nothing."""
        parts = self._set
        parts.engine.refuse_inside("asking for the last message", "another thread")
        self._refuse_if_closed()
        deadline = parts.engine.now() + parts.operation_timeout
        what = f"asking {self._what} for the last message"
        ask = partial(Ask, request=partial(AskForLast, deadline=deadline), stored=True)
        answers: dict[str, LastMessage] = self._call(ask, what)
        return answers
