"""Signed values of the ids that travel unsigned.

Every id of the protocol (ledger, entry, sequence, request) is a ``uint64`` field, yet the broker and the other clients
keep ids as signed 64-bit integers and use -1 for "none" or "not yet". On the wire -1 therefore arrives as 2^64 - 1.
Protobuf for Python hands that number over as it stands and refuses to encode a negative one, so each id passes through
one of these two functions at the edge, and everything further inside sees -1.
"""

from operator import index

from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["signed", "unsigned"]

_SIGN_BIT = 1 << 63
_RANGE = 1 << 64


def signed(value: int) -> int:
    """Read a ``uint64`` field as the signed number it stands for: 2^64 - 1 is -1."""
    return value - _RANGE if value >= _SIGN_BIT else value


def unsigned(value: int) -> int:
    """Turn a signed 64-bit number into what its ``uint64`` field carries: -1 is 2^64 - 1."""
    try:
        number = index(value)
    except TypeError as fault:
        raise EncodeError(f"an id is a whole number, not {excerpt(value)}", 0, 0) from fault
    if not -_SIGN_BIT <= number < _SIGN_BIT:
        raise EncodeError(f"an id must fit in 64 signed bits (-2^63 to 2^63 - 1), not {excerpt(number)}", 0, 0)
    return number % _RANGE
