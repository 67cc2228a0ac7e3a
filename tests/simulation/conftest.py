from collections.abc import Iterator

import pytest

from pulsar_actors.simulation.world import World
from tests.simulation.talk import Talk


@pytest.fixture
def world() -> Iterator[World]:
    with World(0) as world:
        yield world


@pytest.fixture
def talk(world: World) -> Talk:
    return Talk(world)
