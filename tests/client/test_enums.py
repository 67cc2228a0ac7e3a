import pickle
from typing import Any

import _pulsar
import pytest

from pulsar_actors import exceptions
from pulsar_actors.client import enums
from pulsar_actors.client.enums import CompressionType, ConsumerType, LoggerLevel, Result
from pulsar_actors.wire import PulsarApi_pb2 as wire

OURS_ALONE = {"SubscriptionMode", "HashingScheme", "ProducerCryptoFailureAction"}
"""The Java client has all of these, and the C++ client all but the first."""

NAMES = [name for name in enums.__all__ if name not in OURS_ALONE]
MEMBERS = [(name, member) for name in NAMES for member in getattr(_pulsar, name).__members__]

# The protocol's own enums, and their members in the order of the numbers.
ON_THE_WIRE = {
    "CompressionType": wire.CompressionType,
    "ConsumerType": wire.CommandSubscribe.SubType,
    "InitialPosition": wire.CommandSubscribe.InitialPosition,
    "KeySharedMode": wire.KeySharedMode,
    "ProducerAccessMode": wire.ProducerAccessMode,
    "RegexSubscriptionMode": wire.CommandGetTopicsOfNamespace.Mode,
}
WAYS_TO_ASK = ["str", "repr", "hash", "int", "format", "format-to-the-right"]
SAME_WORD = {"ALL": "alltopics", "PERSISTENT": "persistentonly", "NON_PERSISTENT": "nonpersistentonly"}


@pytest.mark.parametrize("name", NAMES)
def test_members_and_numbers_are_those_of_the_official_client(name: str) -> None:
    official = {member: int(value) for member, value in getattr(_pulsar, name).__members__.items()}
    assert {one.name: one.value for one in getattr(enums, name)} == official


def test_hashing_schemes_have_the_names_and_numbers_of_the_official_cpp_client() -> None:
    assert {one.name: one.value for one in enums.HashingScheme} == {
        "Murmur3_32Hash": 0,
        "BoostHash": 1,
        "JavaStringHash": 2,
    }


@pytest.mark.parametrize(("name", "member"), MEMBERS)
@pytest.mark.parametrize("ask", [str, repr, hash, int, "{}".format, "{:>40}".format], ids=WAYS_TO_ASK)
def test_a_member_prints_hashes_and_counts_like_the_official_one(name: str, member: str, ask: Any) -> None:
    ours, official = getattr(getattr(enums, name), member), getattr(getattr(_pulsar, name), member)
    if ask == "{:>40}".format:
        assert ask(ours) == ask(str(official))
    else:
        assert ask(ours) == ask(official)


@pytest.mark.parametrize("name", sorted(ON_THE_WIRE))
def test_the_protocol_has_the_same_numbers_for_the_same_choices(name: str) -> None:
    def plain(word: str) -> str:
        return SAME_WORD.get(word, word).replace("_", "").lower()

    protocol = {plain(word): number for word, number in ON_THE_WIRE[name].items()}
    assert {plain(one.name): one.value for one in getattr(enums, name)} == protocol


@pytest.mark.parametrize("name", sorted(OURS_ALONE))
def test_what_is_ours_alone_is_not_in_the_official_client_and_prints_in_the_same_way(name: str) -> None:
    assert not hasattr(_pulsar, name)
    assert [str(one) for one in getattr(enums, name)] == [f"{name}.{one.name}" for one in getattr(enums, name)]


def test_a_member_can_be_made_of_its_number_compared_with_it_and_pickled() -> None:
    assert ConsumerType(3) is ConsumerType.KeyShared
    assert ConsumerType.KeyShared == 3
    assert ConsumerType.Shared != ConsumerType.KeyShared
    assert LoggerLevel.Debug < LoggerLevel.Error
    assert pickle.loads(pickle.dumps(CompressionType.ZSTD)) is CompressionType.ZSTD  # noqa: S301 - our own pickle


@pytest.mark.parametrize("result", [one for one in Result if one is not Result.Ok], ids=str)
def test_every_result_but_ok_stands_for_the_exception_of_its_name(result: Result) -> None:
    assert Result.of(getattr(exceptions, result.name)()) is result


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, Result.Ok),
        (exceptions.ConnectionLost("gone"), Result.ReadError),
        (exceptions.Misdirected("in circles"), Result.LookupError),
        (exceptions.LookupsRefused("TooManyRequests", "later"), Result.TooManyLookupRequestException),
        (exceptions.TopicNameRefused("InvalidTopicName", "no"), Result.InvalidTopicName),
        (exceptions.InternalError("a bug"), Result.UnknownError),
        (exceptions.BrokerRefusal("NewError", "of a newer broker"), Result.UnknownError),
        (LookupError("of Python, not ours"), Result.UnknownError),
    ],
    ids=repr,
)
def test_an_error_without_a_result_of_its_own_goes_by_its_kind(error: BaseException | None, result: Result) -> None:
    assert Result.of(error) is result
