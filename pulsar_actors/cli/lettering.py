"""Text for pictures: broken into lines, and measured without a font.

A browser uses whatever fonts its machine has, so widths are those of a wide one: text may end up narrower than the
room it was given, hardly ever wider.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pulsar_actors.cli.places import Size

LINE: Final = 16
NARROW, WIDE = frozenset(" .,:;'|/[]()ijlft!"), frozenset("mwMW@")


class Face(NamedTuple):
    """How a word looks: the name of its class in the style sheet, and what its width depends on."""

    name: str
    pixels: int = 12
    bold: bool = False


class Word(NamedTuple):
    """A piece of text that is never broken over two lines."""

    text: str
    face: Face


class Lines(NamedTuple):
    """Text that knows its size: lines of words, and how far below the one before each starts."""

    lines: tuple[tuple[Word, ...], ...]
    steps: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The room it needs."""
        return Size(max((width(line) for line in self.lines), default=0), sum(self.steps))


def words(text: str, face: Face) -> list[Word]:
    """Break a text at its spaces."""
    return [Word(word, face) for word in text.split()]


def width(line: Iterable[Word]) -> int:
    """Measure words with spaces between them."""
    parts = list(line)
    return sum(_width(word.text, word.face) for word in parts) + sum(_width(" ", word.face) for word in parts[1:])


def wrap(paragraphs: Iterable[Sequence[Word]], limit: int, between: int = 0) -> Lines:
    """Break paragraphs into lines that fit, with some room between paragraphs."""
    lines: list[tuple[Word, ...]] = []
    steps: list[int] = []
    for paragraph in paragraphs:
        first = len(lines)
        line: tuple[Word, ...] = ()
        for word in paragraph:
            if line and width((*line, word)) > limit:
                lines.append(line)
                line = ()
            line = (*line, word)
        lines.append(line)
        steps += [LINE + (between if first and index == first else 0) for index in range(first, len(lines))]
    return Lines(tuple(lines), tuple(steps))


def _width(text: str, face: Face) -> int:
    thousandths = sum(400 if c in NARROW else 980 if c in WIDE else 740 if c.isupper() else 615 for c in text)
    return -(-thousandths * face.pixels * (11 if face.bold else 10) // 10_000)
