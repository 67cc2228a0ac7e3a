"""One rule for what is handed in as bytes.

`bytes` is taken as it is. A `bytearray`, or a view of any shape, is copied: its owner may change it or want to resize
it later, and the items that a view counts and slices need not be bytes. A text, a number or a list is refused, where
`bytes()` would make something of it.
"""

from typing import TypeAlias

__all__ = ["Octets", "octets"]

Octets: TypeAlias = bytes | bytearray | memoryview


def octets(data: Octets) -> bytes:
    """Give the bytes of what has any; TypeError says that it has none."""
    return data if type(data) is bytes else bytes(memoryview(data))
