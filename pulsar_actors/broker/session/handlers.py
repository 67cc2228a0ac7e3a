"""The table of all commands that a broker takes, with their handlers."""

from types import MappingProxyType
from typing import Final

from pulsar_actors.broker.session import connect, consume, lookup, produce, schemas, transactions
from pulsar_actors.broker.session.session import CommandHandlers

__all__ = ["HANDLERS"]


HANDLERS: Final[CommandHandlers] = MappingProxyType(
    {
        **connect.CONNECT_HANDLERS,
        **lookup.LOOKUP_HANDLERS,
        **produce.PRODUCE_HANDLERS,
        **consume.CONSUME_HANDLERS,
        **schemas.SCHEMA_HANDLERS,
        **transactions.TRANSACTION_HANDLERS,
    }
)
