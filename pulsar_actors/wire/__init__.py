"""Bytes to values and back. No state beyond a frame's missing bytes, no I/O, no clock."""
