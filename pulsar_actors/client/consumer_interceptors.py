"""Calls the interceptors of a consumer or a reader.

If an interceptor raises, that is logged, and the next one is called with the message as it was before.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from pulsar_actors.client.interceptors import ConsumerInterceptor
from pulsar_actors.client.listeners import EventCaller
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.machines.consumer_events import RedeliveryRequested
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName


class ConsumerInterceptors:
    """The interceptors of one consumer or reader, in their order."""

    __slots__ = ("_event_caller", "_given", "_name")

    def __init__(self, given: Sequence[ConsumerInterceptor], name: str, event_caller: EventCaller) -> None:
        self._given = given
        self._event_caller = event_caller
        self._name = name

    def apply(self, handle: Any, message: Message) -> Message:  # noqa: ANN401 - a handle, whose module imports this one
        """Pass a message through `before_consume`."""
        for one in self._given:
            try:
                made = cast("object", one.before_consume(handle, message))
            except BaseException as raised:  # user code; after sys.exit() a future would never end
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
        """Call `on_acknowledge`, or its cumulative form, for each id."""
        for one in self._given:
            call = one.on_acknowledge_cumulative if cumulative else one.on_acknowledge
            for message_id in ids:
                try:
                    call(handle, message_id, error)
                except BaseException as raised:  # as above
                    if is_for_main(raised):
                        raise
                    LOG.exception("an interceptor of %s raised, and is passed over", self._name)

    def acknowledged_elsewhere(self, message_id: MessageId) -> None:
        """Report, on a listener thread, the acknowledgement of a message of `reconsume_later`."""
        self._event_caller.call_with_handle(
            lambda handle: self.acknowledged(handle, [message_id], None, cumulative=False)
        )

    def on_redelivery_requested(self, topic: TopicName, request: RedeliveryRequested) -> None:
        """Report, on a listener thread, the entries whose redelivery was requested."""
        nacked, late = _ids(topic, request.negatively_acknowledged), _ids(topic, request.late)
        for one in self._given:
            if nacked:
                self._event_caller.call_with_handle(partial(_call_negative_acks_send, one, nacked))
            if late:
                self._event_caller.call_with_handle(partial(_call_ack_timeout_send, one, late))

    def partitions_changed(self, topic: str, partitions: int) -> None:
        """Report, on a listener thread, the new number of partitions of a topic."""
        for one in self._given:
            self._event_caller.call_without_handle(partial(one.on_partitions_change, topic, partitions))

    def close(self) -> None:
        """Call `close`, on a listener thread."""
        for one in self._given:
            self._event_caller.call_without_handle(one.close)


def _ids(topic: TopicName, entries: Iterable[EntryKey]) -> frozenset[MessageId]:
    name, partition = str(topic), topic.partition_index
    return frozenset(new_message_id(WireMessageId(*entry, partition), name) for entry in entries)


def _call_negative_acks_send(one: ConsumerInterceptor, ids: frozenset[MessageId], handle: Any) -> None:  # noqa: ANN401 - the same
    one.on_negative_acks_send(handle, ids)


def _call_ack_timeout_send(one: ConsumerInterceptor, ids: frozenset[MessageId], handle: Any) -> None:  # noqa: ANN401 - the same
    one.on_ack_timeout_send(handle, ids)
