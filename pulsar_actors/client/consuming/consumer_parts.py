"""What the handle of a consumer or a reader of one topic shares with its actor: its queue, and a box for its acks."""

from pulsar_actors.client.consuming.receiving_parts import ReceivingParts
from pulsar_actors.machines.consumer import Consumer
from pulsar_actors.runtime.ack_box import AckBox
from pulsar_actors.runtime.hand_off import HandOff


class ConsumerParts(ReceivingParts[Consumer, HandOff]):
    """The parts of one."""

    __slots__ = ("acks",)

    acks: AckBox
