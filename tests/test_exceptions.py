import copy
import pickle
import re
from inspect import getmembers, isclass

import pulsar
import pytest

from pulsar_actors import exceptions
from pulsar_actors.client.enums import Result
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.wire import errors

OFFICIAL = {name: one for name, one in getmembers(pulsar.exceptions, isclass) if issubclass(one, Exception)}
KINDS = [one for _, one in getmembers(exceptions, isclass) if issubclass(one, Exception)]


def make(kind: type[PulsarException]) -> PulsarException:
    if issubclass(kind, exceptions.BrokerRefusal):
        return kind("TopicNotFound", "no such topic")
    if issubclass(kind, exceptions.WireError):
        return kind("a frame of 3 bytes", 7, 3)
    return kind("it went wrong")


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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_of_a_worker_can_be_read_elsewhere(kind: type[PulsarException]) -> None:
    error = make(kind)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own pickle
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_every_error_of_the_official_client_is_there_under_its_name(name: str) -> None:
    assert issubclass(getattr(exceptions, name), PulsarException)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("arguments", [(), ("it went wrong",)])
def test_a_stand_in_for_a_broker_raises_any_of_them_as_it_does_the_official_ones(
    kind: type[PulsarException], arguments: tuple[str, ...]
) -> None:
    if issubclass(kind, exceptions.WireError):
        arguments = ("it went wrong", 0, 0)  # not one of the official ones
    assert str(kind(*arguments)).startswith("".join(map(str, arguments[:1])))


def test_a_program_that_expects_the_errors_of_python_gets_them() -> None:
    assert issubclass(exceptions.InvalidArgument, ValueError)
    assert issubclass(exceptions.Interrupted, KeyboardInterrupt)


@pytest.mark.parametrize("ended", [exceptions.TopicTerminated, exceptions.ProducerFenced, exceptions.TopicNotFound])
def test_who_handles_the_end_of_a_producer_handles_it_for_a_message_that_may_be_stored(
    ended: type[exceptions.BrokerRefusal],
) -> None:
    unknown = getattr(exceptions, f"{ended.__name__}BeforeReceipt")
    assert issubclass(unknown, ended)
    assert issubclass(unknown, exceptions.OutcomeUnknown)
    assert Result.of(unknown("Code", "reason")) is Result[ended.__name__]


def test_who_handles_a_message_that_is_too_big_handles_one_that_may_be_stored() -> None:
    unknown = exceptions.MessageTooBigBeforeReceipt
    assert issubclass(unknown, exceptions.MessageTooBig)
    assert issubclass(unknown, exceptions.OutcomeUnknown)
    assert Result.of(unknown("too big")) is Result.MessageTooBig


@pytest.mark.parametrize(
    ("refused", "local"),
    [
        (exceptions.TopicNameRefused, exceptions.InvalidTopicName),
        (exceptions.LookupsRefused, exceptions.TooManyLookupRequestException),
    ],
)
def test_a_name_for_what_both_the_client_and_the_broker_refuse_catches_either(
    refused: type[PulsarException], local: type[PulsarException]
) -> None:
    assert issubclass(refused, local)
    assert issubclass(refused, exceptions.BrokerRefusal)
    assert not issubclass(local, exceptions.BrokerRefusal)
