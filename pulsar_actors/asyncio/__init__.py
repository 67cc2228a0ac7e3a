"""The client for asyncio, with the names of the official `pulsar.asyncio`.

It stands on the synchronous client, whose I/O threads do the work.

- A message is sent by appending it to the send queue, from the event loop's thread. Receipts are completed in bulk: an
  I/O thread collects them, and calls the loop once for all of them (`completions.py`).
- `receive` of a message that is queued already takes it, without a future. Otherwise it waits to be told that there may
  be a message, and *then* takes one, in its own task. No message is ever given to a future, so none can be lost with a
  cancelled one.
- Rare calls that wait for brokers (creating, seeking, closing) run the synchronous ones in a thread of their own.
- A client belongs to the loop of its first call; it is closed with that loop (`binding.py`).
- The schema that decoding a message needs is asked for before `receive` returns it (`receiving.py`). Listeners are
  called in tasks of the loop (`listeners.py`).
- The errors are those of the synchronous client. Calls that never wait, such as `topic` and `stats`, are plain methods.
"""

from pulsar_actors.asyncio.client import Client
from pulsar_actors.asyncio.consumer import Consumer
from pulsar_actors.asyncio.producer import Producer
from pulsar_actors.asyncio.reader import Reader
from pulsar_actors.asyncio.table_view import TableView
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from pulsar_actors.exceptions import PulsarException

__all__ = [
    "BatchingType",
    "Client",
    "CompressionType",
    "Consumer",
    "ConsumerCryptoFailureAction",
    "InitialPosition",
    "PartitionsRoutingMode",
    "Producer",
    "ProducerAccessMode",
    "PulsarException",
    "Reader",
    "RegexSubscriptionMode",
    "TableView",
]
