"""What the handle of a consumer or a reader of several topics shares with its actor."""

import re

from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.receiving_parts import ReceivingParts
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.consumer_actor import Serve
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.fan_in import FanIn
from pulsar_actors.wire.topic_name import TopicName


class ConsumerSetParts(ReceivingParts[TopicSet, FanIn]):
    """The parts of one. `members` are the consumers by topic; other threads see them come and go, one by one."""

    __slots__ = ("members",)

    def __init__(self, engine: Engine, options: ConsumerOptions, operation_timeout: float) -> None:
        super().__init__(engine, options, operation_timeout)
        self.members: dict[str, ConsumerParts] = {}
        self.hand_off = FanIn(self._ask_to_serve, engine.interleaving, waits_on=not options.topics)

    def covers(self, topic: TopicName) -> bool:
        """Tell whether a topic can be one of these, whether there is a member for it or not."""
        pattern = self.options.topic
        is_named = not {str(topic), str(topic.base)}.isdisjoint(self.options.known_topics)
        return is_named or (isinstance(pattern, re.Pattern) and bool(TopicPattern(pattern).sort((str(topic),))))

    def _ask_to_serve(self) -> None:
        tell(self.address, Serve())
