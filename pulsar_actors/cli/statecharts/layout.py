"""The layout of a picture: where its boxes, arrows and labels are, in layers from top to bottom.

A chart declares its states in the order in which they are meant to be read. So an arrow to a later state points down,
and one to an earlier state points up. A box is one rank below the lowest of the earlier boxes that it is linked to.
Boxes are on even layers, and the labels of arrows on the odd layers between them. Where an arrow passes a layer, a node
as narrow as a line reserves its position.

No two things overlap: within a layer each node keeps its distance from its neighbours, layers do not touch, and arrows
bend only between layers, where there is nothing else.

The order within the layers is chosen for few crossings, and the positions for straight arrows. Nothing depends on
chance or on the order of a set, so each run draws the same picture.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, pairwise, product
from math import fsum, inf
from typing import Final, NamedTuple

from pulsar_actors.cli.statecharts.geometry import Rectangle, Size

ORDER_SWEEPS: Final = 16
BOX_GAP: Final = 40
LINE_GAP: Final = 18
LAYER_GAP: Final = 30
PORT_GAP: Final = 22
PORT_MARGIN: Final = 18
POSITION_ROUNDS: Final = 80
ALIGNMENT_ROUNDS: Final = 8

Point = tuple[int, int]


class Link(NamedTuple):
    """An arrow from box to box, with the size of its label."""

    tail: Hashable
    head: Hashable
    label: Size


class Route(NamedTuple):
    """An arrow in the picture. From its first point to the second it is straight, to the third bent, and so on."""

    points: tuple[Point, ...]
    label: Rectangle


class Layout(NamedTuple):
    """The picture: its boxes, its arrows in the order of the links, and its size."""

    boxes: dict[Hashable, Rectangle]
    routes: tuple[Route, ...]
    size: Size


class Node:
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
        self.above: list[Node] = []
        self.below: list[Node] = []


Layers = list[list[Node]]


class _ArrowNodes(NamedTuple):
    """The nodes of an arrow, from the upper box to the lower one."""

    nodes: tuple[Node, ...]
    label: Node
    upward: bool


def lay_out(
    boxes: Mapping[Hashable, Size], links: Sequence[Link], pairs: Iterable[tuple[Hashable, Hashable]]
) -> Layout:
    """Lay out boxes, given in reading order. `pairs` are boxes without a link, of which the second comes later."""
    ranks = _ranks(tuple(boxes), [(link.tail, link.head) for link in links], pairs)
    box_nodes = {key: Node(size, 2 * ranks[key], BOX_GAP, is_box=True) for key, size in boxes.items()}
    chains = [_chain_nodes(box_nodes[link.tail], box_nodes[link.head], link.label) for link in links]
    layers: Layers = [[] for _ in range(2 * max(ranks.values()) + 1)]
    for node in dict.fromkeys((*box_nodes.values(), *(node for chain in chains for node in chain.nodes))):
        layers[node.layer].append(node)
    layers = arrange(layers)
    _assign_x(layers)
    _straighten(layers, chains)
    bands = _assign_y(layers)
    ports = _ports(box_nodes.values())
    return Layout(
        boxes={key: _rectangle(node) for key, node in box_nodes.items()},
        routes=tuple(_route(chain, bands, ports) for chain in chains),
        size=Size(max(_rectangle(node).right for layer in layers for node in layer), bands[-1][1]),
    )


def _ranks(
    keys: Sequence[Hashable], links: Iterable[tuple[Hashable, Hashable]], pairs: Iterable[tuple[Hashable, Hashable]]
) -> dict[Hashable, int]:
    index_of = {key: index for index, key in enumerate(keys)}
    earlier: dict[Hashable, list[Hashable]] = {key: [] for key in keys}
    for first, second in [*(sorted(link, key=lambda key: index_of[key]) for link in links), *pairs]:
        if index_of[first] < index_of[second]:
            earlier[second].append(first)
    ranks: dict[Hashable, int] = {}
    for key in keys:
        ranks[key] = max((ranks[other] + 1 for other in earlier[key]), default=0)
    return ranks


def _chain_nodes(tail: Node, head: Node, size: Size) -> _ArrowNodes:
    upward = tail.layer > head.layer
    upper, lower = (head, tail) if upward else (tail, head)
    label_layer = tail.layer - 1 if upward else tail.layer + 1
    between = [
        Node(size if layer == label_layer else Size(0, 0), layer, LINE_GAP, is_box=False)
        for layer in range(upper.layer + 1, lower.layer)
    ]
    nodes = (upper, *between, lower)
    for above, below in pairwise(nodes):
        connect(above, below)
    return _ArrowNodes(nodes, between[label_layer - upper.layer - 1], upward)


def connect(upper: Node, lower: Node) -> None:
    """Connect nodes of adjacent layers by a line."""
    upper.below.append(lower)
    lower.above.append(upper)


def crossings(layers: Layers) -> int:
    """Count the crossings of lines between neighbouring layers."""
    return sum(_inversions(a.below, b.below) for layer in layers for a, b in combinations(layer, 2))


def arrange(layers: Layers) -> Layers:
    """Return the layers in the order with the fewest crossings that sweeps down and up have found."""
    best = _with_numbers(layers)
    fewest = crossings(best)
    for current in _sweeps(best):
        count = crossings(current)
        if count < fewest:
            best, fewest = [list(layer) for layer in current], count
    return _with_numbers(best)


def _sweeps(layers: Layers) -> Iterator[Layers]:
    current = [list(layer) for layer in layers]
    for sweep in range(ORDER_SWEEPS):
        down = sweep % 2 == 0
        for layer in current if down else reversed(current):
            layer.sort(key=lambda node: _barycenter(node, node.above if down else node.below))
            _number_nodes(layer)
        for layer in current:
            _swap_neighbours(layer)
        yield current


def _barycenter(node: Node, neighbours: list[Node]) -> Fraction:
    if not neighbours:
        return Fraction(node.order)
    return Fraction(sum(other.order for other in neighbours), len(neighbours))


def _swap_neighbours(layer: list[Node]) -> None:
    """Swap neighbours as long as that saves crossings."""
    improved = True
    while improved:
        improved = False
        for index, (left, right) in enumerate(pairwise(list(layer))):
            if layer[index] is left and _crossings_saved(left, right) > 0:
                layer[index], layer[index + 1] = right, left
                improved = True
        _number_nodes(layer)


def _crossings_saved(left: Node, right: Node) -> int:
    now = _inversions(left.above, right.above) + _inversions(left.below, right.below)
    then = _inversions(right.above, left.above) + _inversions(right.below, left.below)
    return now - then


def _inversions(left: list[Node], right: list[Node]) -> int:
    return sum(a.order > b.order for a, b in product(left, right))


def _with_numbers(layers: Layers) -> Layers:
    for layer in layers:
        _number_nodes(layer)
    return layers


def _number_nodes(layer: list[Node]) -> None:
    for order, node in enumerate(layer):
        node.order = order


def _assign_x(layers: Layers) -> None:
    """Move the nodes of each layer towards their neighbours, again and again, until the lines are straight."""
    for layer in layers:
        for left, right in pairwise(layer):
            right.x = left.x + _distance(left, right)
    for turn in range(POSITION_ROUNDS):
        for layer in layers if turn % 2 else reversed(layers):
            pulls = [[(other.x, _stiffness(node, other)) for other in (*node.above, *node.below)] for node in layer]
            weights = [fsum(weight for _, weight in pull) or 0.01 for pull in pulls]
            wishes = [
                fsum(x * weight for x, weight in pull) / weights[index] if pull else layer[index].x
                for index, pull in enumerate(pulls)
            ]
            positions = spaced_positions(wishes, weights, [_distance(left, right) for left, right in pairwise(layer)])
            for node, x in zip(layer, positions, strict=True):
                node.x = x


def _straighten(layers: Layers, chains: Iterable[_ArrowNodes]) -> None:
    """Line up the nodes of each arrow, as far as their neighbours leave room; begin the picture at its left edge."""
    longest_first = sorted(chains, key=lambda chain: -len(chain.nodes))
    for _ in range(ALIGNMENT_ROUNDS):
        for chain in longest_first:
            run: list[Node] = []
            limits: tuple[float, float] = (-inf, inf)
            for node in chain.nodes[1:-1]:
                low, high = _room_to_move(node, layers[node.layer])
                if max(low, limits[0]) > min(high, limits[1]):
                    _align(run, *limits)
                    run, limits = [], (-inf, inf)
                run.append(node)
                limits = max(low, limits[0]), min(high, limits[1])
            _align(run, *limits)
    left = min(node.x - node.size.width / 2 for layer in layers for node in layer)
    for layer in layers:
        for node in layer:
            node.x = float(round(node.x - left))


def _room_to_move(node: Node, layer: list[Node]) -> tuple[float, float]:
    """Return how far to the left and to the right a node may be in its layer."""
    low, high = -inf, inf
    if node.order > 0:
        left = layer[node.order - 1]
        low = left.x + _distance(left, node)
    if node.order + 1 < len(layer):
        right = layer[node.order + 1]
        high = right.x - _distance(node, right)
    return low, max(low, high)


def _align(run: list[Node], low: float, high: float) -> None:
    middle = fsum(node.x for node in run) / len(run)
    for node in run:
        node.x = min(max(middle, low), high)


def _distance(left: Node, right: Node) -> float:
    return (left.size.width + right.size.width) / 2 + max(left.gap, right.gap)


def _stiffness(node: Node, other: Node) -> float:
    """Return how strongly a node is pulled by another one.

    Boxes of adjacent ranks stay below each other, and a long line bends where it leaves a box, not on its way.
    """
    if not (node.is_box or other.is_box):
        return 8.0
    line = other if node.is_box else node
    return 4.0 if line.above[0].is_box and line.below[0].is_box else 0.5


def _assign_y(layers: Layers) -> list[tuple[int, int]]:
    """Give each layer a band of the picture; return the first line of each, and the first below it."""
    bands: list[tuple[int, int]] = []
    top = 0
    for layer in layers:
        height = max((node.size.height for node in layer), default=0)
        for node in layer:
            node.y = top + (height - node.size.height) // 2
        bands.append((top, top + height))
        top += height + LAYER_GAP
    return bands


def _ports(boxes: Iterable[Node]) -> dict[tuple[Node, Node], int]:
    """Choose where each line starts on the edge of a box, in the order of the nodes that the lines lead to."""
    ports: dict[tuple[Node, Node], int] = {}
    for box in boxes:
        for side in (box.above, box.below):
            ends = sorted(side, key=lambda node: node.order)
            room = max(0, box.size.width - 2 * PORT_MARGIN)
            gap = min(PORT_GAP, room // max(1, len(ends) - 1))
            left = box.x - room / 2
            positions = spaced_positions([end.x for end in ends], [1.0] * len(ends), [gap] * (len(ends) - 1))
            for index, (end, x) in enumerate(zip(ends, positions, strict=True)):
                last = left + room - gap * (len(ends) - 1 - index)
                ports[box, end] = round(min(max(x, left + gap * index), last))
    return ports


def _route(chain: _ArrowNodes, bands: list[tuple[int, int]], ports: dict[tuple[Node, Node], int]) -> Route:
    upper, *between, lower = chain.nodes
    start, end = ports[upper, between[0]], ports[lower, between[-1]]
    points = [(start, _rectangle(upper).bottom), (start, bands[upper.layer][1])]
    for node in between:
        points += [(round(node.x), bands[node.layer][0]), (round(node.x), bands[node.layer][1])]
    points += [(end, bands[lower.layer][0]), (end, lower.y)]
    return Route(tuple(reversed(points) if chain.upward else points), _rectangle(chain.label))


def _rectangle(node: Node) -> Rectangle:
    return Rectangle(round(node.x - node.size.width / 2), node.y, *node.size)


class _Pool(NamedTuple):
    weight: float
    moment: float
    members: int

    @property
    def position(self) -> float:
        return self.moment / self.weight


def spaced_positions(wishes: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return positions in a row, each as near to its wish as its neighbours allow.

    `gaps[i]` is the least distance between position i and position i + 1. The sum of the squared distances from the
    wishes, each times its weight, is the least possible. Subtracting the gaps leaves the fit of a sequence that never
    falls. Pooling neighbours that are in each other's way solves that exactly: a pool is at the mean of its wishes.
    """
    offsets = [0.0, *accumulate(gaps)][: len(wishes)]
    pools: list[_Pool] = []
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        pool = _Pool(weight, weight * (wish - offset), 1)
        while pools and pools[-1].position > pool.position:
            before = pools.pop()
            pool = _Pool(before.weight + pool.weight, before.moment + pool.moment, before.members + pool.members)
        pools.append(pool)
    positions = [pool.position for pool in pools for _ in range(pool.members)]
    return [position + offset for position, offset in zip(positions, offsets, strict=True)]
