from typing import Any

import pytest

from pulsar_actors.runtime.addressees import ANSWERS, CONTROL, TO_CONSUMERS, TO_MEMBERS, TO_PRODUCERS, addressee
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandMessage,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandTopicMigrated,
    CommandWatchTopicUpdate,
)

TOLD: list[tuple[Any, tuple[str, int]]] = [
    *((kind(producer_id=3), ("producer", 3)) for kind in (CommandSendReceipt, CommandSendError, CommandCloseProducer)),
    *((kind(consumer_id=4), ("consumer", 4)) for kind in (CommandMessage, CommandCloseConsumer)),
    *((kind(consumer_id=5), ("consumer", 5)) for kind in (CommandActiveConsumerChange, CommandReachedEndOfTopic)),
    (CommandTopicMigrated(resource_type=CommandTopicMigrated.Producer, resource_id=6), ("producer", 6)),
    (CommandTopicMigrated(resource_type=CommandTopicMigrated.Consumer, resource_id=7), ("consumer", 7)),
    (CommandWatchTopicUpdate(watcher_id=8), ("watcher", 8)),
]


@pytest.mark.parametrize(("command", "expected"), TOLD, ids=[type(command).__name__ for command, _ in TOLD])
def test_a_command_names_the_member_that_it_is_for(command: Any, expected: tuple[str, int]) -> None:
    assert addressee(command) == expected


def test_every_kind_of_command_to_members_is_among_these() -> None:
    assert {type(command) for command, _ in TOLD} == TO_MEMBERS


def test_no_command_is_for_two() -> None:
    kinds = [*CONTROL, *ANSWERS, *TO_PRODUCERS, *TO_CONSUMERS]
    assert len(kinds) == len(set(kinds))


def test_every_answer_carries_the_id_of_a_request() -> None:
    assert all("request_id" in kind.DESCRIPTOR.fields_by_name for kind in ANSWERS)
