"""Messages in chunks whose last chunk is in a span, and whose first one is before it: they belong to the span.

Whoever reads the span is told of a last chunk that completed nothing. All chunks have the time at which their message
was published, so another reader goes back to that time, and reads up to that chunk. Yet a broker may go by its own
clock, so a first look goes back a little further, and others, if that was in vain, much. A message whose last chunk was
sent twice is found where the first of them is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.reader import Reader
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.left_out import Unfinished
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.opened import Contents
from pulsar_actors.spark.entries import next_entry
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.position import Position

__all__ = ["ALL_CHUNKS", "put_together"]

ALL_CHUNKS: Final[Mapping[str, Any]] = {
    "max_pending_chunked_message": 0,
    "expire_time_of_incomplete_chunked_message_ms": 0,
}
"""What a reader is told that keeps chunks until their message is complete: what is given up would be missing."""

LOOKS: Final = (5_000, 60_000, 3_600_000)
"""Milliseconds before the time of publishing."""


def put_together(client: Client, topic: str, unfinished: Sequence[Unfinished], options: ReadOptions) -> list[Contents]:
    """Give the messages that end with these chunks, as far as they are there."""
    found: dict[str, Contents] = {}
    for look in LOOKS:
        missing = [one for one in unfinished if one.uuid not in found]
        if missing:
            found |= _look(client, topic, missing, look, options)
    for one in unfinished:
        if one.uuid not in found:
            where = Position(*one.entry).text(-1)
            LOG.warning("%s: of the message whose last chunk is at %s, the first are gone: left out", topic, where)
    return list(found.values())


def _look(
    client: Client, topic: str, missing: Sequence[Unfinished], look: int, options: ReadOptions
) -> dict[str, Contents]:
    """Look for messages, by the ids that their chunks share."""
    reader = client.create_reader(
        topic, MessageId.latest, subscription_role_prefix=options.prefix, **options.reader, **ALL_CHUNKS
    )
    with reader:
        reader.seek(max(0, min(one.publish_time for one in missing) - look))
        return _found(reader, {one.uuid for one in missing}, max(one.entry for one in missing), options)


def _found(reader: Reader, uuids: set[str], last: EntryKey, options: ReadOptions) -> dict[str, Contents]:
    found: dict[str, Contents] = {}
    while len(found) < len(uuids):
        contents = next_entry(reader, options.poll_timeout_ms)
        if contents is None or contents.entry.message_id.position > last:
            break
        if contents.entry.metadata.uuid in uuids:
            found[contents.entry.metadata.uuid] = contents
    return found
