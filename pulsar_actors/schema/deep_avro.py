"""Read an Avro value that contains values of its own kind.

fastavro's compiled reader ends the process if a value is nested too deep. Its reader in Python raises, but takes an
integer of any number of bytes, in a time that grows with the square of that number. So this is the reader in Python,
with integers of 64 bits, as Avro has them. It imports what fastavro keeps private, and fastavro is an extra: load it
when it is needed.
"""

from io import BytesIO
from typing import Any

from fastavro import parse_schema
from fastavro._read_py import read_data  # pyright: ignore[reportUnknownVariableType] # it has no types
from fastavro.io.binary_decoder import BinaryDecoder

_MOST_BYTES = 10
"""Of an integer, which has seven bits in each."""


class _Decoder(BinaryDecoder):
    """The decoder of a payload, which refuses longer integers."""

    fo: BytesIO

    def read_long(self) -> int:
        """Read an integer: the lowest bits first, and of these its sign first."""
        value = 0
        for index in range(_MOST_BYTES):
            byte = self.fo.read(1)
            if not byte:
                raise EOFError
            value |= (byte[0] & 0x7F) << 7 * index
            if not byte[0] & 0x80 and value < 1 << 64:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("an integer has more than 64 bits")

    read_int = read_long


def read_deep(data: bytes, writer: Any, reader: Any, **options: bool) -> Any:  # noqa: ANN401 - fastavro's
    """Read a value as fastavro's `schemaless_reader` does."""
    named: dict[str, dict[str, Any]] = {"writer": {}, "reader": {}}
    written = parse_schema(writer, named["writer"])
    own = parse_schema(reader, named["reader"]) if reader and reader != writer else None
    return read_data(_Decoder(BytesIO(data)), written, named, own, options)  # type: ignore[no-untyped-call]
