"""Every command that a broker takes, and who handles it."""

from types import MappingProxyType
from typing import Final

from pulsar_actors.broker.session import acks, connect, lookup, produce, schemas, seek, subscribe, topics, transactions
from pulsar_actors.broker.session.surroundings import Handlers

__all__ = ["HANDLERS"]

HANDLERS: Final[Handlers] = MappingProxyType(
    {
        **connect.HANDLERS,
        **lookup.HANDLERS,
        **topics.HANDLERS,
        **produce.HANDLERS,
        **subscribe.HANDLERS,
        **acks.HANDLERS,
        **seek.HANDLERS,
        **schemas.HANDLERS,
        **transactions.HANDLERS,
    }
)
