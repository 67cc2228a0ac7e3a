import copy
import pickle
import re
from inspect import getmembers, isclass

import pytest

from pulsar_actors import exceptions
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.wire import errors

ARGUMENTS = {
    exceptions.BrokerRefusal: ("TopicNotFound", "no such topic"),
    exceptions.AuthenticationError: ("AuthenticationError", "expired"),
    exceptions.WireError: ("a frame of 3 bytes", 7, 3),
}


def tree_in(text: str) -> dict[str, str]:
    """Read a drawn tree: each name with the name above it."""
    above: dict[int, str] = {}
    parents: dict[str, str] = {}
    previous = ""
    for line in text.splitlines():
        drawn = re.match(r"([│ ]*[├└]── )(\w+)", line)
        if drawn is not None:
            depth = len(drawn[1]) // 4
            above.setdefault(0, previous)
            above[depth] = drawn[2]
            parents[drawn[2]] = above[depth - 1]
        previous = line
    return parents


@pytest.mark.parametrize("module", [exceptions, errors], ids=lambda module: module.__name__)
def test_the_tree_that_a_module_draws_is_the_one_that_it_declares(module: object) -> None:
    classes = [one for _, one in getmembers(module, isclass) if issubclass(one, PulsarException)]
    declared = {
        one.__name__: one.__bases__[0].__name__ for one in classes if one.__module__ == getattr(module, "__name__", "")
    }
    declared.pop("PulsarException", None)
    assert tree_in(str(module.__doc__)) == declared


@pytest.mark.parametrize("kind", [one for _, one in getmembers(exceptions, isclass)], ids=lambda kind: kind.__name__)
def test_an_error_of_a_worker_can_be_read_elsewhere(kind: type[PulsarException]) -> None:
    error = kind(*ARGUMENTS.get(kind, ("it went wrong",)))
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own pickle
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
