"""The wire protocol: it converts bytes to values and back.

It keeps only the bytes of an incomplete frame, and has no I/O and no clock.
"""
