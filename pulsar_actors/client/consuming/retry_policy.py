"""What a consumer does with messages that it puts off, where its user did not say.

There is one retry topic and one dead letter topic for all topics of a consumer, named after what was subscribed to or,
of several, after the first by name; so that clients that name the same topics, in whatever order, share them.

What could not work is refused here. Only Shared and KeyShared subscriptions are delivered anything later: to others the
broker gives what was put off at once. A topic that is not persistent keeps nothing for later, and a subscription that
is not durable takes with it what it had put off.
"""

from collections.abc import Sequence
from dataclasses import replace

from pulsar_actors.client.enums import ConsumerType, SubscriptionMode
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.machines.ledgers.retry_topic import DEFAULT_MAX_RETRIES, dead_letter_topic, retry_topic
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["refuse_unless_retries_work", "retry_policy"]

_SHARED = (ConsumerType.Shared, ConsumerType.KeyShared)


def refuse_unless_retries_work(kind: ConsumerType, mode: SubscriptionMode, receiver_queue_size: int) -> None:
    """Refuse a consumer to which nothing could be delivered later."""
    if kind not in _SHARED:
        raise InvalidConfiguration(
            f"enable_retry goes with a Shared or a KeyShared consumer: {kind} ones are given everything at once"
        )
    if mode is not SubscriptionMode.Durable:
        raise InvalidConfiguration("enable_retry goes with a Durable subscription: another forgets what was put off")
    if not receiver_queue_size:
        raise InvalidConfiguration(
            "receiver_queue_size=0 asks for one message at a time, of a single topic; enable_retry adds the retry topic"
        )


def retry_policy(
    topics: Sequence[str], subscription: str, given: ConsumerDeadLetterPolicy | None
) -> ConsumerDeadLetterPolicy:
    """Complete a policy. There are no topics where there is a pattern."""
    policy = given or ConsumerDeadLetterPolicy(DEFAULT_MAX_RETRIES)
    if not topics and not (policy.retry_letter_topic and policy.dead_letter_topic):
        raise InvalidConfiguration(
            "enable_retry with a pattern takes a dead_letter_policy with retry_letter_topic and dead_letter_topic: a "
            "pattern has no topic to name them after"
        )
    first = min((str(TopicName.parse(name)) for name in topics), default="")
    retry = TopicName.parse(policy.retry_letter_topic or retry_topic(first, subscription))
    dead = TopicName.parse(policy.dead_letter_topic or dead_letter_topic(first, subscription))
    if not retry.is_persistent:
        raise InvalidConfiguration(
            f"enable_retry needs a topic that keeps messages for later, which {retry} does not: give a persistent one, "
            "retry_letter_topic of the dead_letter_policy"
        )
    if retry == dead:
        raise InvalidConfiguration(
            f"{retry} cannot be both retry_letter_topic and dead_letter_topic: nothing would end"
        )
    return replace(policy, retry_letter_topic=str(retry), dead_letter_topic=str(dead))
