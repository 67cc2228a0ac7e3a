"""Numbers as protobuf writes them: seven bits a byte, lowest first, the top bit saying that more follow."""

_MORE = 0x80
_SEVEN_BITS = 0x7F
_TWO_BYTES = 1 << 14  # in less time than the loop below takes, as there is one for each message
_THREE_BYTES = 1 << 21

_SHORT = [bytes((value,)) for value in range(_MORE)]


def varint(value: int) -> bytes:
    """Write a number that is not negative."""
    if value < _MORE:
        return _SHORT[value]
    if value < _TWO_BYTES:
        return bytes((value & _SEVEN_BITS | _MORE, value >> 7))
    if value < _THREE_BYTES:
        return bytes((value & _SEVEN_BITS | _MORE, value >> 7 & _SEVEN_BITS | _MORE, value >> 14))
    groups = bytearray()
    while value > _SEVEN_BITS:
        groups.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)
