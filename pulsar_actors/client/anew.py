"""An error that many callers are to get, for one of them.

What has ended keeps the error that says why, and raises it whenever it is called again. Raised as it is, that one
object would collect the traceback of every call, and keep the frames of them all alive: so each call gets a copy.
"""

import copy


def anew(error: Exception) -> Exception:
    """Copy it, with its cause and without its traceback."""
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    return fresh
