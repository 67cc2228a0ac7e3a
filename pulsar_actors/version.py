"""The version of this package, which brokers are told, too, and how it was built."""

from typing import Final

__version__ = "0.1.0.dev0"

compiled: Final = not __file__.endswith(".py")
"""True if the modules that each message passes through are compiled by mypyc, this one with them."""
