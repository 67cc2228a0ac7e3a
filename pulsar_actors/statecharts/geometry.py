"""Sizes, rectangles and lines of text, in pixels of a picture whose y grows downwards.

Text is measured without a font, as each browser has its own. The widths are those of a wide font, so text in a browser
is hardly ever wider than the room it has here.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_actors.named_tuple import NamedTuple


class Size(NamedTuple):
    """The size of something that has no position yet."""

    width: int
    height: int


class Rectangle(NamedTuple):
    """A rectangle in the picture: its upper left corner, and its size."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first column to the right of the rectangle."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The first line below the rectangle."""
        return self.y + self.height


LINE_HEIGHT: Final = 16
NARROW, WIDE = frozenset(" .,:;'|/[]()ijlft!"), frozenset("mwMW@")


class Font(NamedTuple):
    """The font of a word: the name of its class in the style sheet, its size and its weight."""

    name: str
    pixels: int = 12
    bold: bool = False


class Word(NamedTuple):
    """A piece of text that is never broken over two lines."""

    text: str
    font: Font


class Lines(NamedTuple):
    """Lines of words, with the distance of each line from the one before."""

    lines: tuple[tuple[Word, ...], ...]
    steps: tuple[int, ...]

    @property
    def size(self) -> Size:
        """The size of the text."""
        return Size(max((text_width(line) for line in self.lines), default=0), sum(self.steps))


def split_words(text: str, font: Font) -> list[Word]:
    """Break a text at its spaces."""
    return [Word(word, font) for word in text.split()]


def text_width(line: Iterable[Word]) -> int:
    """Return the width of words with spaces between them."""
    parts = list(line)
    return sum(_word_width(word.text, word.font) for word in parts) + sum(
        _word_width(" ", word.font) for word in parts[1:]
    )


def wrap_words(paragraphs: Iterable[Sequence[Word]], limit: int, between: int = 0) -> Lines:
    """Break paragraphs into lines no wider than the limit, with a distance between paragraphs."""
    lines: list[tuple[Word, ...]] = []
    steps: list[int] = []
    for paragraph in paragraphs:
        first = len(lines)
        line: tuple[Word, ...] = ()
        for word in paragraph:
            if line and text_width((*line, word)) > limit:
                lines.append(line)
                line = ()
            line = (*line, word)
        lines.append(line)
        steps += [LINE_HEIGHT + (between if first and index == first else 0) for index in range(first, len(lines))]
    return Lines(tuple(lines), tuple(steps))


def _word_width(text: str, font: Font) -> int:
    thousandths = sum(400 if c in NARROW else 980 if c in WIDE else 740 if c.isupper() else 615 for c in text)
    return -(-thousandths * font.pixels * (11 if font.bold else 10) // 10_000)
