import logging

import pytest

from pulsar_actors.runtime.simulated.errors import TasksFailed
from pulsar_actors.runtime.simulated.world import World

LOG = logging.getLogger("pulsar_actors")


def test_what_the_package_logs_is_in_the_history_without_addresses() -> None:
    with World(0) as world:
        LOG.warning("something odd about <thing at %s>", "0x7f0011aa")
    assert any("WARNING: something odd about <thing at 0x…>" in line for line in world.history.lines())


def test_an_error_with_a_traceback_fails_the_run_and_one_without_does_not() -> None:
    with World(0) as world:
        LOG.error("no traceback")
    assert not world.failures
    with pytest.raises(TasksFailed, match="planted"), World(0):
        LOG.error("an actor has died", exc_info=ValueError("planted"))


def test_a_closed_world_reads_no_log() -> None:
    before = list(LOG.handlers)
    with World(0) as world:
        assert LOG.handlers != before
    length = len(world.history)
    LOG.warning("afterwards")
    assert LOG.handlers == before
    assert len(world.history) == length
