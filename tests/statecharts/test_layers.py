from pulsar_actors.statecharts.geometry import Size
from pulsar_actors.statecharts.layers import LayoutNode, arrange, connect, crossings


def nodes(count: int, layer: int) -> list[LayoutNode]:
    return [LayoutNode(Size(10, 10), layer, 5, is_box=True) for _ in range(count)]


def test_lines_that_need_not_cross_do_not() -> None:
    upper, lower = nodes(4, 0), nodes(4, 1)
    for node, other in zip(upper, reversed(lower), strict=True):
        connect(node, other)
    layers = arrange([upper, lower])
    assert crossings(layers) == 0
    assert [node.order for layer in layers for node in layer] == [0, 1, 2, 3] * 2


def test_what_has_no_neighbours_stays_in_its_layer() -> None:
    upper, lower = nodes(2, 0), nodes(3, 1)
    connect(upper[0], lower[2])
    assert set(arrange([list(upper), list(lower)])[1]) == set(lower)


def test_lines_that_must_cross_are_counted() -> None:
    upper, lower = nodes(2, 0), nodes(2, 1)
    for node in upper:
        for other in lower:
            connect(node, other)
    assert crossings(arrange([upper, lower])) == 1
