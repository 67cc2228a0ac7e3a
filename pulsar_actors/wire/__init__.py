"""The wire protocol: bytes to values and back. No state beyond the bytes of an incomplete frame, no I/O, no clock."""
