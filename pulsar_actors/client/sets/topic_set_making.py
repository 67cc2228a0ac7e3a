"""Where a set of producers or consumers is put together; who its members are is in the making of each kind."""

from typing import Any, TypeVar

from pulsar_actors.client.parts import Parts
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.runtime.actor import Address
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.topic_set_actor import Crew, Search, TopicSetActor

S = TypeVar("S", bound=Parts[Any])


def begin_topic_set(
    workshop: Workshop, parts: S, settings: TopicSetSettings, crew: Crew, search: Search
) -> SlimFuture[S]:
    """Begin to make a set of producers or consumers."""

    def make(loop: Loop, place: Place) -> Address:
        parts.machine = TopicSet(settings)
        parts.address = TopicSetActor.start(loop, place, parts.ties, parts.machine, crew, search)
        return parts.address

    return workshop.admit("topic set", parts, make)
