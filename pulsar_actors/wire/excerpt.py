"""A value in the text of an error: what it looks like, never more than two lines of it.

An error names what it got, and what it got came from outside: a name of a megabyte would make a text of a megabyte, for
the log, the pickle and the terminal. So whatever a peer or a caller chose goes through here on its way into a text.
"""

import reprlib

__all__ = ["excerpt"]

_MOST = 160  # characters, of which the middle is left out where there are more

_shortening = reprlib.Repr()
_shortening.maxstring = _MOST
_shortening.maxother = _MOST


def excerpt(value: object) -> str:
    """Give the value's `repr`, its middle replaced by dots where it is long."""
    if isinstance(value, int):  # Python refuses to write numbers of more than 4,300 digits
        return str(value) if value.bit_length() <= _MOST else f"a number of {value.bit_length():,} bits"
    return _shortening.repr(value)
