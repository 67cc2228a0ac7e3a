"""What a producer says about itself whenever it binds to a broker, and what it learned from the brokers before.

Every PRODUCER carries a higher epoch than the one before, by which a broker tells a new binding from an old one. A name
that a broker invented is used again, and still marked as not chosen by the user. The epoch of the topic, which fences
off producers that lost an exclusive topic, is sent back as it came.
"""

from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseProducer, CommandProducer, CommandProducerSuccess


class ProducerIdentity:
    """One producer in the eyes of brokers. `chosen` carries all that the user chose, and the name only if one was."""

    __slots__ = ("_chosen", "_epoch", "_topic_epoch", "name", "schema_version")

    def __init__(self, chosen: CommandProducer) -> None:
        self._chosen = chosen
        self._epoch = 0
        self._topic_epoch: int | None = None
        self.name = chosen.producer_name
        self.schema_version = b""

    def next_request(self) -> CommandProducer:
        """Make the PRODUCER of the next binding."""
        command = CommandProducer()
        command.CopyFrom(self._chosen)
        command.user_provided_producer_name = self._chosen.HasField("producer_name")
        if self.name:
            command.producer_name = self.name
        if self._topic_epoch is not None:
            command.topic_epoch = self._topic_epoch
        command.epoch = self._epoch
        self._epoch += 1
        return command

    def close_request(self) -> CommandCloseProducer:
        """Make the CLOSE_PRODUCER of every binding."""
        return CommandCloseProducer(producer_id=self._chosen.producer_id)

    def adopt(self, answer: CommandProducerSuccess) -> None:
        """Learn what the broker calls us."""
        self.name = answer.producer_name
        self.schema_version = answer.schema_version
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch
