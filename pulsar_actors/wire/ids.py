"""Signed values of the ids that travel unsigned.

Every id of the protocol (ledger, entry, sequence, request) is a ``uint64`` field, yet the broker and the other clients
keep ids as signed 64-bit integers and use -1 for "none" or "not yet". On the wire -1 therefore arrives as 2^64 - 1.
Protobuf for Python hands that number over as it stands and refuses to encode a negative one, so each id passes through
one of these two functions at the edge, and everything further inside sees -1.
"""

__all__ = ["signed", "unsigned"]

_SIGN_BIT = 1 << 63
_RANGE = 1 << 64


def signed(value: int) -> int:
    """Read a ``uint64`` field as the signed number it stands for: 2^64 - 1 is -1."""
    return value - _RANGE if value >= _SIGN_BIT else value


def unsigned(value: int) -> int:
    """Turn a signed 64-bit number into what its ``uint64`` field carries: -1 is 2^64 - 1."""
    if not -_SIGN_BIT <= value < _SIGN_BIT:
        msg = f"an id must fit in 64 signed bits (-2^63 to 2^63 - 1), not {value}"
        raise ValueError(msg)
    return value % _RANGE
