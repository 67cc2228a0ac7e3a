"""Settings that every test shares."""

import gc
import signal

import pytest
from hypothesis import settings

# A deadline measures the machine and whatever else runs on it. A failing example prints what reproduces it.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")

# A shell gives what it starts in the background no Ctrl-C. Some tests need it, in this process or in one they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _out_of_the_way() -> None:
    """Keep what a session accumulates from the garbage collector: many tests have it look for what is left alive."""
    gc.collect()
    gc.freeze()
