"""Which subscriptions may be made, or joined, at all."""

from pulsar_actors.broker.model.refusal import Missing, Refusal
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError

_ONE_AT_A_TIME = (CommandSubscribe.SubType.Exclusive, CommandSubscribe.SubType.Failover)


def check_subscribe(request: SubscribeRequest, there: Subscription | None, *, is_stored: bool, may_make: bool) -> None:
    """Refuse a request that does not go with the subscription that is there, or for which none may be made."""
    if not request.subscription.strip():
        raise Refusal(ServerError.ProducerBusy, "Empty subscription name")
    if request.read_compacted and request.kind not in _ONE_AT_A_TIME:
        raise Refusal(ServerError.NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
    if not is_stored:
        return
    if there is not None and there.durable != request.durable:
        kind = "Durable" if there.durable else "NonDurable"
        raise Refusal(ServerError.NotAllowedError, f"{kind} subscription with the same name already exists.")
    if there is None and request.durable and not may_make:
        raise Missing(ServerError.SubscriptionNotFound, "Subscription does not exist")
