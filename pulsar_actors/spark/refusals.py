"""What a broker refuses, in words that say of what: of many topics and subscriptions, its own do not tell which."""

from pulsar_actors.exceptions import BrokerRefusal

__all__ = ["told_of"]


def told_of(what: str, refusal: BrokerRefusal) -> BrokerRefusal:
    """Give the same refusal, for those who tell them by their class, with what it is about."""
    return type(refusal)(refusal.code, f"{what}: {refusal.reason}")
