"""The order of what stands in the layers of a picture, chosen so that few lines cross."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Final

from pulsar_actors.cli.places import Size

SWEEPS: Final = 16


class Node:
    """A box, a label, or the place where a line passes a layer."""

    __slots__ = ("above", "below", "gap", "is_box", "layer", "order", "size", "x", "y")

    def __init__(self, size: Size, layer: int, gap: int, *, is_box: bool) -> None:
        self.size = size
        self.layer = layer
        self.gap = gap  # the least distance from its neighbours
        self.is_box = is_box
        self.order = 0
        self.x = 0.0  # of its middle
        self.y = 0  # of its upper edge
        self.above: list[Node] = []
        self.below: list[Node] = []


Layers = list[list[Node]]


def join(upper: Node, lower: Node) -> None:
    """Draw a line between nodes of adjacent layers."""
    upper.below.append(lower)
    lower.above.append(upper)


def crossings(layers: Layers) -> int:
    """Count the crossings of lines between neighbouring layers."""
    return sum(_inversions(a.below, b.below) for layer in layers for a, b in combinations(layer, 2))


def arrange(layers: Layers) -> Layers:
    """Give the layers in the best order that sweeping down and up has met, and number the nodes in it."""
    best = _numbered(layers)
    fewest = crossings(best)
    for current in _sweeps(best):
        count = crossings(current)
        if count < fewest:
            best, fewest = [list(layer) for layer in current], count
    return _numbered(best)


def _sweeps(layers: Layers) -> Iterator[Layers]:
    current = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in current if down else reversed(current):
            layer.sort(key=lambda node: _middle(node, node.above if down else node.below))
            _number(layer)
        for layer in current:
            _exchange(layer)
        yield current


def _middle(node: Node, neighbours: list[Node]) -> Fraction:
    if not neighbours:
        return Fraction(node.order)
    return Fraction(sum(other.order for other in neighbours), len(neighbours))


def _exchange(layer: list[Node]) -> None:
    """Let neighbours change places as long as that unties lines."""
    improved = True
    while improved:
        improved = False
        for index, (left, right) in enumerate(pairwise(list(layer))):
            if layer[index] is left and _gain(left, right) > 0:
                layer[index], layer[index + 1] = right, left
                improved = True
        _number(layer)


def _gain(left: Node, right: Node) -> int:
    now = _inversions(left.above, right.above) + _inversions(left.below, right.below)
    then = _inversions(right.above, left.above) + _inversions(right.below, left.below)
    return now - then


def _inversions(left: list[Node], right: list[Node]) -> int:
    return sum(a.order > b.order for a, b in product(left, right))


def _numbered(layers: Layers) -> Layers:
    for layer in layers:
        _number(layer)
    return layers


def _number(layer: list[Node]) -> None:
    for order, node in enumerate(layer):
        node.order = order
