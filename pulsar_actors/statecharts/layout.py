"""The layout of a picture: where its boxes, arrows and labels are, in layers from top to bottom.

A chart declares its states in the order in which they are meant to be read. So an arrow to a later state points down,
and one to an earlier state points up. A box is one rank below the lowest of the earlier boxes that it is linked to, and
a box that nothing leads to stands just above what it leads to. Boxes are on even layers, and the labels of arrows on
the odd layers between them. Where an arrow passes a layer, a node as narrow as a line reserves its position.

No two things overlap: within a layer each node keeps its distance from its neighbours, layers do not touch, and arrows
run sideways only between layers, where there is nothing else, each at a height of its own. A box is wide enough for its
arrows.

The order within the layers is chosen for few crossings (`layers.py`), and the positions for straight arrows. Nothing
depends on chance or on the order of a set, so each run draws the same picture.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import fsum, inf
from typing import Final

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.statecharts.geometry import Rectangle, Size
from pulsar_actors.statecharts.layers import (
    PORT_GAP,
    PORT_MARGIN,
    Layers,
    LayoutNode,
    arrange,
    connect,
    crossings,
)

BOX_GAP: Final = 40
LINE_GAP: Final = 18
LAYER_GAP: Final = 26
STEP: Final = 6
TRACK_GAP: Final = 9
TRACK_MARGIN: Final = 17
POSITION_ROUNDS: Final = 80
ALIGNMENT_ROUNDS: Final = 8

Point = tuple[int, int]


class Link(NamedTuple):
    """An arrow from box to box, with the size of its label."""

    tail: Hashable
    head: Hashable
    label: Size


class ArrowRoute(NamedTuple):
    """An arrow in the picture. It runs down or up, then sideways, and so on."""

    points: tuple[Point, ...]
    label: Rectangle


class Layout(NamedTuple):
    """The picture: its boxes, its arrows in the order of the links, and its size."""

    boxes: dict[Hashable, Rectangle]
    routes: tuple[ArrowRoute, ...]
    size: Size
    crossings: int

    @property
    def sideways(self) -> int:
        """The total distance that the arrows run to the side."""
        return sum(abs(x - to_x) for route in self.routes for (x, _), (to_x, _) in pairwise(route.points))


class _ArrowNodes(NamedTuple):
    """The nodes of an arrow, from the upper box to the lower one."""

    nodes: tuple[LayoutNode, ...]
    label: LayoutNode
    upward: bool


def lay_out(
    boxes: Mapping[Hashable, Size], links: Sequence[Link], pairs: Iterable[tuple[Hashable, Hashable]]
) -> Layout:
    """Lay out boxes, given in reading order. `pairs` are boxes without a link, of which the second comes later."""
    ranks = _ranks(tuple(boxes), [(link.tail, link.head) for link in links], pairs)
    box_nodes = {key: LayoutNode(size, 2 * ranks[key], BOX_GAP, is_box=True) for key, size in boxes.items()}
    chains = [_chain_nodes(box_nodes[link.tail], box_nodes[link.head], link.label) for link in links]
    layers: Layers = [[] for _ in range(2 * max(ranks.values()) + 1)]
    for node in dict.fromkeys((*box_nodes.values(), *(node for chain in chains for node in chain.nodes))):
        layers[node.layer].append(node)
    for node in box_nodes.values():
        node.make_room_for_arrows()
    layers = arrange(layers)
    _assign_x(layers)
    _straighten(layers, chains)
    ports = _ports(box_nodes.values())
    _settle(layers, chains, ports)
    _move_inside(layers, ports)
    tracks = [_tracks(_sideways(chains, ports, layer)) for layer in range(len(layers) - 1)]
    bands = _assign_y(layers, tracks)
    return Layout(
        boxes={key: _rectangle(node) for key, node in box_nodes.items()},
        routes=tuple(_route(chain, bands, ports, tracks) for chain in chains),
        size=Size(max(_rectangle(node).right for layer in layers for node in layer), bands[-1][1]),
        crossings=crossings(layers),
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
    for key in keys:
        if not earlier[key]:
            ranks[key] = min((ranks[other] for other in keys if key in earlier[other]), default=1) - 1
    return ranks


def _chain_nodes(tail: LayoutNode, head: LayoutNode, size: Size) -> _ArrowNodes:
    upward = tail.layer > head.layer
    upper, lower = (head, tail) if upward else (tail, head)
    label_layer = tail.layer - 1 if upward else tail.layer + 1
    between = [
        LayoutNode(size if layer == label_layer else Size(0, 0), layer, LINE_GAP, is_box=False)
        for layer in range(upper.layer + 1, lower.layer)
    ]
    nodes = (upper, *between, lower)
    for above, below in pairwise(nodes):
        connect(above, below)
    return _ArrowNodes(nodes, between[label_layer - upper.layer - 1], upward)


def _assign_x(layers: Layers) -> None:
    """Move the nodes of each layer towards their neighbours, again and again, until the lines are straight."""
    for layer in layers:
        for left, right in pairwise(layer):
            right.x = left.x + _distance(left, right)
    for turn in range(POSITION_ROUNDS):
        before = [node.x for layer in layers for node in layer]
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
        if all(
            abs(node.x - x) < 1 for node, x in zip((node for layer in layers for node in layer), before, strict=True)
        ):
            return


def _straighten(layers: Layers, chains: Iterable[_ArrowNodes]) -> None:
    """Line up the nodes of each arrow, as far as their neighbours leave room.

    Then move the picture to its left edge.
    """
    longest_first = sorted(chains, key=lambda chain: -len(chain.nodes))
    for _ in range(ALIGNMENT_ROUNDS):
        for chain in longest_first:
            run: list[LayoutNode] = []
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


def _settle(layers: Layers, chains: Iterable[_ArrowNodes], ports: "Ports") -> None:
    """Remove small sideways steps from the arrows, where there is room."""
    for chain in chains:
        upper, *between, lower = chain.nodes
        for before, after in pairwise(between):
            straight = [node for node in between if node.x == after.x]
            if abs(before.x - after.x) > STEP or not _move(straight, before.x, layers):
                _move([node for node in between if node.x == before.x], after.x, layers, at_most=STEP)
        ends = ((upper, between[0]), (lower, between[-1]))
        for box, end in ends:
            _move([node for node in between if node.x == end.x], ports[box, end], layers, at_most=PORT_GAP)
        for box, end in ends:
            others = [
                x for (one, other), x in ports.items() if one is box and other.layer == end.layer and other is not end
            ]
            near = [x for x in others if (x > end.x) is (x > ports[box, end]) and abs(x - end.x) < PORT_GAP - STEP]
            if abs(ports[box, end] - end.x) <= STEP and not near:
                ports[box, end] = round(end.x)


def _move_inside(layers: Layers, ports: "Ports") -> None:
    """Move the picture to the right if a label that has settled stands over its left edge."""
    left = min(_rectangle(node).x for layer in layers for node in layer)
    if left < 0:
        for node in (node for layer in layers for node in layer):
            node.x -= left
        for end in ports:
            ports[end] -= left


def _move(nodes: Sequence[LayoutNode], x: float, layers: Layers, at_most: float = inf) -> bool:
    """Move nodes below each other, if there is room for all of them; return whether they moved."""
    rooms = [_room_to_move(node, layers[node.layer]) for node in nodes]
    if abs(nodes[0].x - x) > at_most or not all(low <= x <= high for low, high in rooms):
        return False
    for node in nodes:
        node.x = float(x)
    return True


def _room_to_move(node: LayoutNode, layer: list[LayoutNode]) -> tuple[float, float]:
    """Return how far to the left and to the right a node may be in its layer."""
    low, high = -inf, inf
    if node.order > 0:
        left = layer[node.order - 1]
        low = left.x + _distance(left, node)
    if node.order + 1 < len(layer):
        right = layer[node.order + 1]
        high = right.x - _distance(node, right)
    return low, max(low, high)


def _align(run: list[LayoutNode], low: float, high: float) -> None:
    middle = fsum(node.x for node in run) / len(run)
    for node in run:
        node.x = min(max(middle, low), high)


def _distance(left: LayoutNode, right: LayoutNode) -> float:
    return (left.size.width + right.size.width) / 2 + max(left.gap, right.gap)


def _stiffness(node: LayoutNode, other: LayoutNode) -> float:
    """Return the weight with which another node pulls a node.

    Boxes of adjacent ranks stay below each other, and a long line bends where it leaves a box, not on its way.
    """
    if not (node.is_box or other.is_box):
        return 8.0
    line = other if node.is_box else node
    return 4.0 if line.above[0].is_box and line.below[0].is_box else 0.5


Sideways = tuple[int, int]
"""The x where a line enters the gap between two layers from above, and the x where it leaves the gap below."""


def _sideways(chains: Iterable[_ArrowNodes], ports: "Ports", layer: int) -> list[Sideways]:
    """Return these positions for the lines that pass the gap below a layer."""
    return [
        (_x_of_line(upper, lower, ports), _x_of_line(lower, upper, ports))
        for chain in chains
        for upper, lower in pairwise(chain.nodes)
        if upper.layer == layer
    ]


def _tracks(lines: Iterable[Sideways]) -> dict[Sideways, int]:
    """Give each line that runs sideways in a gap a track, counted from above.

    A line that leaves the gap where another comes into it is the lower one: so they do not run on each other. Of two
    lines that run in one direction, the one that comes first is the lower one, if that can be: so they do not cross.
    """
    tracks: dict[Sideways, int] = {}
    left = sorted({line for line in lines if line[0] != line[1]}, key=_from_above)
    while left:
        free = [line for line in left if not any(_comes_in(other, line) for other in left)] or left
        line = next((line for line in free if not any(_is_above(other, line) for other in left)), free[0])
        left.remove(line)
        tracks[line] = max((track + 1 for other, track in tracks.items() if _overlap(line, other)), default=0)
    return tracks


def _from_above(line: Sideways) -> tuple[bool, int]:
    start, end = line
    return end < start, -start if start < end else start


def _comes_in(line: Sideways, other: Sideways) -> bool:
    return line != other and abs(line[0] - other[1]) < LINE_GAP // 2


def _is_above(line: Sideways, other: Sideways) -> bool:
    alike = (line[0] < line[1]) is (other[0] < other[1])
    return alike and _from_above(line) < _from_above(other) and _overlap(line, other)


def _overlap(line: Sideways, other: Sideways) -> bool:
    return min(line) < max(other) + LINE_GAP and min(other) < max(line) + LINE_GAP


def _assign_y(layers: Layers, tracks: Sequence[Mapping[Sideways, int]]) -> list[tuple[int, int]]:
    """Assign a band of the picture to each layer; return the first line of each band, and the first line below it."""
    bands: list[tuple[int, int]] = []
    top = 0
    for layer, below in zip(layers, [*tracks, {}], strict=True):
        height = max((node.size.height for node in layer), default=0)
        for node in layer:
            node.y = top + (height - node.size.height) // 2
        bands.append((top, top + height))
        top += height + (2 * TRACK_MARGIN + TRACK_GAP * max(below.values()) if below else LAYER_GAP)
    return bands


Ports = dict[tuple[LayoutNode, LayoutNode], int]


def _x_of_line(node: LayoutNode, other: LayoutNode, ports: Ports) -> int:
    """Return where the line to another node meets a node."""
    return ports[node, other] if node.is_box else round(node.x)


def _ports(boxes: Iterable[LayoutNode]) -> Ports:
    """Choose where each line starts on the edge of a box, in the order of the nodes that the lines lead to."""
    ports: Ports = {}
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


def _route(
    chain: _ArrowNodes, bands: Sequence[tuple[int, int]], ports: Ports, tracks: Sequence[Mapping[Sideways, int]]
) -> ArrowRoute:
    first, last = chain.nodes[0], chain.nodes[-1]
    points = [(_x_of_line(first, chain.nodes[1], ports), _rectangle(first).bottom)]
    for upper, lower in pairwise(chain.nodes):
        start, end = _x_of_line(upper, lower, ports), _x_of_line(lower, upper, ports)
        if start != end:
            y = bands[upper.layer][1] + TRACK_MARGIN + TRACK_GAP * tracks[upper.layer][start, end]
            points += [(start, y), (end, y)]
    points.append((_x_of_line(last, chain.nodes[-2], ports), last.y))
    return ArrowRoute(tuple(reversed(points) if chain.upward else points), _rectangle(chain.label))


def _rectangle(node: LayoutNode) -> Rectangle:
    return Rectangle(round(node.x - node.size.width / 2), node.y, *node.size)


class _PooledPositions(NamedTuple):
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
    pooled: list[_PooledPositions] = []
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        pool = _PooledPositions(weight, weight * (wish - offset), 1)
        while pooled and pooled[-1].position > pool.position:
            before = pooled.pop()
            pool = _PooledPositions(
                before.weight + pool.weight, before.moment + pool.moment, before.members + pool.members
            )
        pooled.append(pool)
    positions = [pool.position for pool in pooled for _ in range(pool.members)]
    return [position + offset for position, offset in zip(positions, offsets, strict=True)]
