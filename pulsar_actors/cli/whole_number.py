"""Whole numbers on the command line: one out of range is refused with the range."""

from argparse import ArgumentTypeError
from collections.abc import Callable


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Make what reads one, for `add_argument(type=...)`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"takes a whole number from {least:,} to {most:,}, got {text!r}")
        return int(text)

    return parse
