"""Pythons without the interpreter's lock: this package is not made for them yet, and says so when it is imported.

Callers and I/O threads share lists, deques and counters without locks of their own: that one step of the interpreter
happens at a time is what makes `x += 1` on an I/O thread, and "append, then look", safe. The compiled modules need the
lock as well. A free-threaded Python can be told to have it.
"""

import sys
import warnings


def warn_if_free_threaded() -> None:
    """Warn if the interpreter runs without its lock."""
    if not getattr(sys, "_is_gil_enabled", _is_always_enabled)():
        warnings.warn(
            "pulsar_actors needs the interpreter's lock, which this free-threaded Python runs without: messages may be "
            "lost; set PYTHON_GIL=1 in the environment, or start it with -X gil=1",
            RuntimeWarning,
            stacklevel=3,
        )


def _is_always_enabled() -> bool:
    """Stand for what Pythons before 3.13 do not have."""
    return True
