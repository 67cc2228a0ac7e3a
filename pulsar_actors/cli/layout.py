"""Where the boxes and arrows of a picture go, in layers from top to bottom.

The order in which a chart declares its states is the order in which it is meant to be read, so an arrow to a later
state points down and one to an earlier state points up. A box stands one rank below the lowest of the earlier boxes
that it is joined to. Boxes are on even layers, the labels of arrows on the odd layers between them; an arrow that
passes a layer has a place of its own there too, as narrow as a line. Two things in one layer never overlap, for each
keeps its distance from its neighbours; two things in different layers cannot; and an arrow bends only between layers,
where nothing stands. That is the whole proof that a picture is free of collisions.

What remains is to make it calm: the order within the layers is chosen for few crossings, the positions for straight
arrows. Nothing depends on chance or on the order of a set, so each run draws the same picture.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import fsum, inf
from typing import Final, NamedTuple

from pulsar_actors.cli.layers import Layers, Node, arrange, join
from pulsar_actors.cli.places import Rectangle, Size
from pulsar_actors.cli.spacing import spread

BOX_GAP: Final = 40
LINE_GAP: Final = 18
LAYER_GAP: Final = 30
PORT_GAP: Final = 22
PORT_MARGIN: Final = 18
ROUNDS: Final = 80
ALIGNMENTS: Final = 8

Point = tuple[int, int]


class Link(NamedTuple):
    """An arrow to be placed, from box to box, with room for its label."""

    tail: Hashable
    head: Hashable
    label: Size


class Route(NamedTuple):
    """A placed arrow: straight from its first point to the second, bent to the third, straight again, in turn."""

    points: tuple[Point, ...]
    label: Rectangle


class Layout(NamedTuple):
    """The places of the boxes, of the links in the order in which they were given, and the size of the whole."""

    boxes: dict[Hashable, Rectangle]
    routes: tuple[Route, ...]
    size: Size


class _Chain(NamedTuple):
    """The nodes of a link, from the upper box to the lower one."""

    nodes: tuple[Node, ...]
    label: Node
    upward: bool


def lay_out(boxes: Mapping[Hashable, Size], links: Sequence[Link], also: Iterable[tuple[Hashable, Hashable]]) -> Layout:
    """Place boxes, given in reading order; `also` are pairs, joined by no link, of which the second comes later."""
    ranks = _ranks(tuple(boxes), [(link.tail, link.head) for link in links], also)
    placed = {key: Node(size, 2 * ranks[key], BOX_GAP, is_box=True) for key, size in boxes.items()}
    chains = [_chain(placed[link.tail], placed[link.head], link.label) for link in links]
    layers: Layers = [[] for _ in range(2 * max(ranks.values()) + 1)]
    for node in dict.fromkeys((*placed.values(), *(node for chain in chains for node in chain.nodes))):
        layers[node.layer].append(node)
    layers = arrange(layers)
    _place_across(layers)
    _straighten(layers, chains)
    bands = _place_down(layers)
    ports = _ports(placed.values())
    return Layout(
        boxes={key: _rectangle(node) for key, node in placed.items()},
        routes=tuple(_route(chain, bands, ports) for chain in chains),
        size=Size(max(_rectangle(node).right for layer in layers for node in layer), bands[-1][1]),
    )


def _ranks(
    keys: Sequence[Hashable], links: Iterable[tuple[Hashable, Hashable]], also: Iterable[tuple[Hashable, Hashable]]
) -> dict[Hashable, int]:
    place = {key: index for index, key in enumerate(keys)}
    pairs = [*(sorted(pair, key=lambda key: place[key]) for pair in links), *also]
    earlier: dict[Hashable, list[Hashable]] = {key: [] for key in keys}
    for first, second in pairs:
        if place[first] < place[second]:
            earlier[second].append(first)
    ranks: dict[Hashable, int] = {}
    for key in keys:
        ranks[key] = max((ranks[other] + 1 for other in earlier[key]), default=0)
    return ranks


def _chain(tail: Node, head: Node, size: Size) -> _Chain:
    upward = tail.layer > head.layer
    upper, lower = (head, tail) if upward else (tail, head)
    label_layer = tail.layer - 1 if upward else tail.layer + 1
    between = [
        Node(size if layer == label_layer else Size(0, 0), layer, LINE_GAP, is_box=False)
        for layer in range(upper.layer + 1, lower.layer)
    ]
    nodes = (upper, *between, lower)
    for above, below in pairwise(nodes):
        join(above, below)
    return _Chain(nodes, between[label_layer - upper.layer - 1], upward)


def _place_across(layers: Layers) -> None:
    """Move each layer to where its neighbours pull it, again and again, until the lines are as straight as can be."""
    for layer in layers:
        for left, right in pairwise(layer):
            right.x = left.x + _distance(left, right)
    for turn in range(ROUNDS):
        for layer in layers if turn % 2 else reversed(layers):
            pulls = [[(other.x, _stiffness(node, other)) for other in (*node.above, *node.below)] for node in layer]
            weights = [fsum(weight for _, weight in pull) or 0.01 for pull in pulls]
            wishes = [
                fsum(x * weight for x, weight in pull) / weights[index] if pull else layer[index].x
                for index, pull in enumerate(pulls)
            ]
            places = spread(wishes, weights, [_distance(left, right) for left, right in pairwise(layer)])
            for node, x in zip(layer, places, strict=True):
                node.x = x


def _straighten(layers: Layers, chains: Iterable[_Chain]) -> None:
    """Line up what each arrow passes, as far as its neighbours leave room, and start the picture at its left edge."""
    longest_first = sorted(chains, key=lambda chain: -len(chain.nodes))
    for _ in range(ALIGNMENTS):
        for chain in longest_first:
            run: list[Node] = []
            limits: tuple[float, float] = (-inf, inf)
            for node in chain.nodes[1:-1]:
                low, high = _freedom(node, layers[node.layer])
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


def _freedom(node: Node, layer: list[Node]) -> tuple[float, float]:
    """Tell how far a node may move in its layer to the left and to the right."""
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
    """Keep neighbouring boxes below each other, and let a long line bend where it leaves a box, not on its way."""
    if not (node.is_box or other.is_box):
        return 8.0
    line = other if node.is_box else node
    return 4.0 if line.above[0].is_box and line.below[0].is_box else 0.5


def _place_down(layers: Layers) -> list[tuple[int, int]]:
    """Give each layer a band of its own: its first line, and the first below it."""
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
    """Choose where on the edge of a box each line starts, from left to right as the lines go on."""
    ports: dict[tuple[Node, Node], int] = {}
    for box in boxes:
        for side in (box.above, box.below):
            ends = sorted(side, key=lambda node: node.order)
            room = max(0, box.size.width - 2 * PORT_MARGIN)
            gap = min(PORT_GAP, room // max(1, len(ends) - 1))
            left = box.x - room / 2
            places = spread([end.x for end in ends], [1.0] * len(ends), [gap] * (len(ends) - 1))
            for index, (end, x) in enumerate(zip(ends, places, strict=True)):
                last = left + room - gap * (len(ends) - 1 - index)
                ports[box, end] = round(min(max(x, left + gap * index), last))
    return ports


def _route(chain: _Chain, bands: list[tuple[int, int]], ports: dict[tuple[Node, Node], int]) -> Route:
    upper, *between, lower = chain.nodes
    start, end = ports[upper, between[0]], ports[lower, between[-1]]
    points = [(start, _rectangle(upper).bottom), (start, bands[upper.layer][1])]
    for node in between:
        points += [(round(node.x), bands[node.layer][0]), (round(node.x), bands[node.layer][1])]
    points += [(end, bands[lower.layer][0]), (end, lower.y)]
    return Route(tuple(reversed(points) if chain.upward else points), _rectangle(chain.label))


def _rectangle(node: Node) -> Rectangle:
    return Rectangle(round(node.x - node.size.width / 2), node.y, *node.size)
