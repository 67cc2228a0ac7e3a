"""How a consumer's or a reader's interceptors are called. Where there are none, nothing of this is.

Each is called by itself: what one raises is logged, and the next one is called as if it had not been there.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from pulsar_actors.client.consuming.announcer import Announcer
from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.consumer_events import WantedAgain
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName


class ConsumerInterceptors:
    """Those of one consumer or reader, in their order."""

    __slots__ = ("_announcer", "_given", "_name")

    def __init__(self, given: Sequence[ConsumerInterceptor], name: str, announcer: Announcer) -> None:
        self._given = given
        self._announcer = announcer
        self._name = name

    def seen(self, handle: Any, message: Message) -> Message:  # noqa: ANN401 - handles know of this module
        """Give what they make of a message that the user is about to get."""
        for one in self._given:
            try:
                made = cast("object", one.before_consume(handle, message))
            except BaseException as raised:  # it is not ours; after sys.exit() a future would never end
                if is_for_main(raised):
                    raise
                LOG.exception("an interceptor of %s raised, and is passed over", self._name)
                continue
            if isinstance(made, Message):
                message = made
            else:
                LOG.warning("an interceptor of %s gave no Message but %s, and is passed over", self._name, type(made))
        return message

    def acknowledged(
        self,
        handle: Any,  # noqa: ANN401 - the same
        ids: Iterable[MessageId],
        error: Exception | None,
        *,
        cumulative: bool,
    ) -> None:
        """Tell them what the user has acknowledged."""
        for one in self._given:
            call = one.on_acknowledge_cumulative if cumulative else one.on_acknowledge
            for message_id in ids:
                try:
                    call(handle, message_id, error)
                except BaseException as raised:  # likewise
                    if is_for_main(raised):
                        raise
                    LOG.exception("an interceptor of %s raised, and is passed over", self._name)

    def acknowledged_elsewhere(self, message_id: MessageId) -> None:
        """Tell them, later, that a message was acknowledged which the user had put off."""
        self._announcer.say(lambda handle: self.acknowledged(handle, [message_id], None, cumulative=False))

    def wanted_again(self, topic: TopicName, news: WantedAgain) -> None:
        """Tell them, later, what the broker was asked for again."""
        refused, late = _ids(topic, news.refused), _ids(topic, news.late)
        for one in self._given:
            if refused:
                self._announcer.say(partial(_tell_refused, one, refused))
            if late:
                self._announcer.say(partial(_tell_late, one, late))

    def partitions_changed(self, topic: str, partitions: int) -> None:
        """Tell them, later, how many partitions a topic has by now."""
        for one in self._given:
            self._announcer.do(partial(one.on_partitions_change, topic, partitions))

    def close(self) -> None:
        """Tell them, later, that it is over."""
        for one in self._given:
            self._announcer.do(one.close)


def _ids(topic: TopicName, entries: Iterable[EntryKey]) -> frozenset[MessageId]:
    name, partition = str(topic), topic.partition_index
    return frozenset(MessageId.wrap(WireMessageId(*entry, partition), name) for entry in entries)


def _tell_refused(one: ConsumerInterceptor, ids: frozenset[MessageId], handle: Any) -> None:  # noqa: ANN401 - the same
    one.on_negative_acks_send(handle, ids)


def _tell_late(one: ConsumerInterceptor, ids: frozenset[MessageId], handle: Any) -> None:  # noqa: ANN401 - the same
    one.on_ack_timeout_send(handle, ids)
