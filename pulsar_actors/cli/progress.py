"""How far it has come, on one line that changes; or, where the output is no terminal, a new line for each tenth.

A line that `say` writes stays, above the one that changes. Everything is ASCII, which every terminal has.
"""

import shutil
from typing import Final, TextIO

BAR: Final = 14
"""Columns: as many as leave room for the text of the demo in the eighty that a terminal has."""

TENTHS: Final = 10


class Progress:
    """The progress towards a number, written to a stream."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._live = stream.isatty()
        self._width = 0
        self._tenths = 0

    def show(self, done: int, text: str) -> None:
        """Say how many there are by now, with a text beside it."""
        share = f"{100 * done // self._total:3d} %"
        if self._live:
            filled = BAR * done // self._total
            line = f"[{'#' * filled}{'.' * (BAR - filled)}] {share}  {text}"
            self._rewrite(line[: shutil.get_terminal_size().columns - 1])
        elif TENTHS * done // self._total > self._tenths:
            self._tenths = TENTHS * done // self._total
            self._stream.write(f"{share}  {text}\n")
        self._stream.flush()

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self.end()
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        """Take away the line that changes."""
        if self._width:
            self._rewrite("")
            self._stream.write("\r")
            self._width = 0

    def _rewrite(self, line: str) -> None:
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._width = len(line)
