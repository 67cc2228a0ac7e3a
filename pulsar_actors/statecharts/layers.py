"""The layers of a picture, from top to bottom: the nodes in each, and their order, with few crossings of lines.

Each sweep through the layers, down or up, puts each node at the mean of its neighbours in the layer before. Then
neighbours are swapped as long as that saves crossings. What sweeps find depends on the order that they start with, so
several are tried.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Final

from pulsar_actors.statecharts.geometry import Size

STARTS: Final = 6
ORDER_SWEEPS: Final = 6
PORT_GAP: Final = 22
PORT_MARGIN: Final = 18


class LayoutNode:
    """A box, a label, or the point where an arrow passes a layer."""

    __slots__ = ("above", "below", "gap", "is_box", "layer", "order", "size", "x", "y")

    def __init__(self, size: Size, layer: int, gap: int, *, is_box: bool) -> None:
        self.size = size
        self.layer = layer
        self.gap = gap  # the least distance from its neighbours
        self.is_box = is_box
        self.order = 0
        self.x = 0.0  # of its middle
        self.y = 0  # of its upper edge
        self.above: list[LayoutNode] = []
        self.below: list[LayoutNode] = []

    def make_room_for_arrows(self) -> None:
        """Widen a box whose arrows would touch."""
        width = 2 * PORT_MARGIN + PORT_GAP * (max(len(self.above), len(self.below)) - 1)
        self.size = self.size._replace(width=max(self.size.width, width))


Layers = list[list[LayoutNode]]


def connect(upper: LayoutNode, lower: LayoutNode) -> None:
    """Connect nodes of adjacent layers by a line."""
    upper.below.append(lower)
    lower.above.append(upper)


def crossings(layers: Layers) -> int:
    """Count the crossings of lines between neighbouring layers."""
    return sum(_inversions(a.below, b.below) for layer in layers for a, b in combinations(layer, 2))


def arrange(layers: Layers) -> Layers:
    """Return the layers in the order with the fewest crossings that sweeps down and up have found, from many starts."""
    best = _with_numbers(layers)
    fewest = crossings(best)
    for start in range(STARTS):
        turned = [_turned(layer, start // 2) for layer in layers]
        for current in _sweeps([layer[::-1] for layer in turned] if start % 2 else turned):
            count = crossings(current)
            if count < fewest:
                best, fewest = [list(layer) for layer in current], count
    return _with_numbers(best)


def _turned(layer: list[LayoutNode], places: int) -> list[LayoutNode]:
    first = places % max(1, len(layer))
    return [*layer[first:], *layer[:first]]


def _sweeps(layers: Layers) -> Iterator[Layers]:
    current = _with_numbers(layers)
    for sweep in range(ORDER_SWEEPS):
        down = sweep % 2 == 0
        for layer in current if down else reversed(current):
            layer.sort(key=lambda node: _barycenter(node, node.above if down else node.below))
            _number_nodes(layer)
        for layer in current:
            _swap_neighbours(layer)
        yield current


def _barycenter(node: LayoutNode, neighbours: list[LayoutNode]) -> Fraction:
    if not neighbours:
        return Fraction(node.order)
    return Fraction(sum(other.order for other in neighbours), len(neighbours))


def _swap_neighbours(layer: list[LayoutNode]) -> None:
    """Swap neighbours as long as that saves crossings."""
    improved = True
    while improved:
        improved = False
        for index, (left, right) in enumerate(pairwise(list(layer))):
            if layer[index] is left and _crossings_saved(left, right) > 0:
                layer[index], layer[index + 1] = right, left
                improved = True
        _number_nodes(layer)


def _crossings_saved(left: LayoutNode, right: LayoutNode) -> int:
    now = _inversions(left.above, right.above) + _inversions(left.below, right.below)
    then = _inversions(right.above, left.above) + _inversions(right.below, left.below)
    return now - then


def _inversions(left: list[LayoutNode], right: list[LayoutNode]) -> int:
    return sum(a.order > b.order for a, b in product(left, right))


def _with_numbers(layers: Layers) -> Layers:
    for layer in layers:
        _number_nodes(layer)
    return layers


def _number_nodes(layer: list[LayoutNode]) -> None:
    for order, node in enumerate(layer):
        node.order = order
