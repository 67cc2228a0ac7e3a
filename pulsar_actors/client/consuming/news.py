"""What a consumer's user wants to hear of beside messages, from loops that must not call users themselves.

A consumer of several topics has one of these for all of them, and each topic's actor is told whom to tell.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pulsar_actors.client.consuming.announcer import Announcer
from pulsar_actors.client.consuming.consumer_event_listener import ConsumerEventListener
from pulsar_actors.client.consuming.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.machines.consumer_events import WantedAgain
from pulsar_actors.runtime.engine import Worker
from pulsar_actors.wire.topic_name import TopicName

Listener = Callable[[Any, Any], object]


class News(NamedTuple):
    """Whom actors tell what, and the listener that messages go to."""

    listener: Listener | None
    told: ConsumerEventListener | None = None
    announcer: Announcer | None = None
    interceptors: ConsumerInterceptors | None = None

    def active_change(self, topic: TopicName) -> Callable[[bool], None]:
        """Give whom to tell whether the consumer of a topic is served."""
        if self.told is None or self.announcer is None:
            return _nobody_cares
        return partial(_changed, self.told, self.announcer, topic.partition_index)

    def wanted_again(self, topic: TopicName) -> Callable[[WantedAgain], None]:
        """Give whom to tell which messages of a topic the broker was asked for again."""
        return _nobody_cares if self.interceptors is None else partial(self.interceptors.wanted_again, topic)


def news_of(
    parts: AnyReceivingParts,
    options: ConsumerOptions,
    name: str,
    worker: Worker,
) -> News:
    """Set up what the options ask for; nothing, where they ask for nothing. `name` is for the log."""
    listener = options.message_listener
    if not options.hears_news:
        return News(listener)
    parts.announcer = announcer = Announcer(worker, name)
    told = options.consumer_event_listener
    if not options.interceptors:
        return News(listener, told, announcer)
    parts.interceptors = interceptors = ConsumerInterceptors(options.interceptors, name, announcer)
    parts.ties.ended.add_done_callback(lambda _: interceptors.close())
    through = None if listener is None else _through(interceptors, listener)
    return News(through, told, announcer, interceptors)


def _through(interceptors: ConsumerInterceptors, listener: Listener) -> Listener:
    return lambda handle, message: listener(handle, interceptors.seen(handle, message))


def _changed(told: ConsumerEventListener, announcer: Announcer, partition: int, is_active: bool) -> None:
    call = told.became_active if is_active else told.became_inactive
    announcer.say(lambda consumer: call(consumer, partition))


def _nobody_cares(_: object) -> None:
    """Do nothing."""
