"""What follows from an acknowledgement: at once, and when the broker has answered."""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.entry_key import EntryKey


class Outcome(NamedTuple):
    """What a call settles at once: whole entries, all up to one, and tokens that wait for no answer.

    `faults` are the ids that no message has: the token of each, if it has one, and what is wrong with it.
    """

    entries: Sequence[EntryKey] = ()
    up_to: EntryKey | None = None
    tokens: tuple[Token, ...] = ()
    faults: tuple[tuple[Token | None, InvalidArgument], ...] = ()


class Answer(NamedTuple):
    """What the answer to a group settles: the tokens that end, and the entries that turn out not to be acknowledged."""

    tokens: tuple[Token, ...] = ()
    refused: tuple[EntryKey, ...] = ()
