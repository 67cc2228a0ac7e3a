"""CRC32-C, the checksum of an entry.

It is the Castagnoli polynomial (RFC 3720, appendix B.4), for which processors have an instruction; `zlib.crc32` is
another polynomial. A sum over several buffers continues from one to the next, so nothing is joined to be summed.
"""

from crc32c import crc32c

__all__ = ["checksum"]


def checksum(*buffers: bytes | memoryview) -> int:
    """Sum the buffers as if they were one."""
    total = 0
    for buffer in buffers:
        total = crc32c(buffer, total)
    return total
