"""Who may join a subscription that has consumers already, and how a Key_Shared one divides its keys."""

from pulsar_actors.broker.model.choices import KeyChoice
from pulsar_actors.broker.model.hash_ranges import HashRanges
from pulsar_actors.broker.model.hash_ring import HashRing
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError


def key_choice(request: SubscribeRequest) -> KeyChoice:
    """Divide the keys as the first consumer asks for."""
    return HashRanges() if request.key_shared_mode == KeySharedMode.STICKY else HashRing()


def check_mixing(there: SubscribeRequest, new: SubscribeRequest) -> None:
    """Refuse a consumer that is not of the kind of those that are there."""
    sub_type = CommandSubscribe.SubType
    if there.kind != new.kind:
        raise _busy(
            f"Active subscription type of '{sub_type.Name(there.kind)}' is different than the connecting consumer's "
            f"type '{sub_type.Name(new.kind)}'."
        )
    if new.kind != sub_type.Key_Shared:
        return
    if there.key_shared_mode != new.key_shared_mode:
        raise _busy(
            f"Active subscription key_shared mode of '{KeySharedMode.Name(there.key_shared_mode)}' is different than "
            f"the connecting consumer's key_shared mode '{KeySharedMode.Name(new.key_shared_mode)}'."
        )
    if there.allow_out_of_order != new.allow_out_of_order:
        raise _busy(
            "Active subscription allows out of order delivery while the connecting consumer does not allow it."
            if there.allow_out_of_order
            else "Active subscription does not allow out of order delivery while the connecting consumer allows it."
        )


def _busy(reason: str) -> Refusal:
    return Refusal(ServerError.ConsumerBusy, f"Subscription is of different type. {reason}")
