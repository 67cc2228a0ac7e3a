"""A consumer of a partitioned topic, of several topics or of a pattern, as users hold it."""

from functools import partial
from typing import Any

from pulsar_actors.client.arguments import flag
from pulsar_actors.client.consuming.consumer import Consumer, OneOrMore
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.retries import Retries
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.several_topics import SeveralTopics
from pulsar_actors.client.stats import BrokerConsumerStats
from pulsar_actors.exceptions import OperationNotSupported
from pulsar_actors.machines.consumer_events import AskForStats, Unsubscribe
from pulsar_actors.machines.topic_set_events import Ask, UnsubscribeAll
from pulsar_actors.runtime.opened import Opened
from pulsar_actors.wire.message_id import MessageId as WireMessageId


class TopicsConsumer(SeveralTopics, Consumer):
    """The consumers of all topics, in one."""

    def __init__(self, parts: ConsumerSetParts, topic: str, client: object, retries: Retries | None = None) -> None:
        super().__init__(parts, client, topic, retries)
        self._set = parts

    def acknowledge(self, message: OneOrMore) -> None:
        """Acknowledge a message, or each of a list, of whichever topics: it is not delivered again.

        A message of a topic that has gone since it came needs no acknowledgement any longer, and gets none.
        """
        if self._acks_are_plain and type(message) is Message and self._hand_off.closed is None:
            opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            member = self._set.members.get(opened.topic)
            if member is not None and type(opened) is Opened:
                member.acks.acknowledge_opened(opened, message._index)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                return
        self._wait(self._hand_in(message, cumulative=False, waits=True))

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerParts | None:
        """Find whose message it is; nobody's any longer, if its topic has gone since it came."""
        self._refuse_if_closed()
        return self._member_of(topic, message_id)

    def get_last_message_id(self) -> MessageId:
        """Refuse: each topic has a last message of its own, and their ids have no order."""
        raise OperationNotSupported(
            f"{self._what} has several topics, each with a last message: ask a consumer of one of them, see "
            "get_topic_partitions()"
        )

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription on all topics, and end the consumer; `force` closes others that use it.

        If some topics refuse, the error names them; the consumer goes on with those.
        """
        flag("force", force)
        self._parts.engine.refuse_inside("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(partial(UnsubscribeAll, request=partial(Unsubscribe, force=force)), f"unsubscribe() of {self._what}")

    def _ask_for_stats(self, deadline: float, what: str) -> BrokerConsumerStats:
        answers: dict[str, Any] = self._call(partial(Ask, request=partial(AskForStats, deadline=deadline)), what)
        return BrokerConsumerStats.of_all([BrokerConsumerStats.of(answer) for answer in answers.values()])
