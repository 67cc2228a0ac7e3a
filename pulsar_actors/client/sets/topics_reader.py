"""A reader of a partitioned topic, or of several topics, as users hold it."""

from functools import partial

from pulsar_actors.client.consuming.reader import Reader
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.several_topics import SeveralTopics
from pulsar_actors.machines.consumer_events import LastMessage, Seek


class TopicsReader(SeveralTopics, Reader):
    """The readers of all topics, in one."""

    def __init__(self, parts: ConsumerSetParts, topic: str, client: object) -> None:
        super().__init__(parts, client, topic)
        self._set = parts

    def has_message_available(self) -> bool:
        """Tell whether there is a message to read now, after what was read, on any topic.

        Of a topic that is not stored, that is what has come here: a broker keeps nothing, and cannot be asked.
        """
        if self._hand_off.has_messages:
            return True
        return any(self._leaves(topic, last) for topic, last in self._ask_all_for_last().items())

    def go_to_last(self) -> None:
        """Go to the last message of each topic that is stored, so that these are read first."""
        for topic, last in self._ask_all_for_last().items():
            if last.message_id.entry_id >= 0 and topic in self._set.members:
                self._put(self._set.members[topic], partial(Seek, target=last.message_id), f"seek() of {topic}")

    def _leaves(self, topic: str, last: LastMessage) -> bool:
        member = self._set.members.get(topic)
        if member is None:
            return False
        start = member.machine.deliveries.ledgers.start
        return start.leaves(last.message_id, member.hand_off.progress.furthest, last.acknowledged)
