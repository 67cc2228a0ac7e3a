from typing import Any

import pytest

from pulsar_actors.machines.connection_commands import (
    ANSWERS,
    CONTROL,
    TO_CONSUMERS,
    TO_HANDLERS,
    TO_PRODUCERS,
    event_of,
    handler_key,
)
from pulsar_actors.machines.connection_events import Answered, Pinged, Refused
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandError,
    CommandFlow,
    CommandMessage,
    CommandPing,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
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
def test_a_command_names_the_handler_that_it_is_for(command: Any, expected: tuple[str, int]) -> None:
    assert handler_key(command) == expected


def test_every_kind_of_command_to_handlers_is_among_these() -> None:
    assert {type(command) for command, _ in TOLD} == TO_HANDLERS


def test_no_command_is_for_two() -> None:
    kinds = [*CONTROL, *ANSWERS, *TO_PRODUCERS, *TO_CONSUMERS]
    assert len(kinds) == len(set(kinds))


def test_every_answer_carries_the_id_of_a_request() -> None:
    assert all("request_id" in kind.DESCRIPTOR.fields_by_name for kind in ANSWERS)


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (CommandPing(), Pinged()),
        (CommandError(request_id=1), Refused(CommandError(request_id=1))),
        (CommandSuccess(request_id=1), Answered(CommandSuccess(request_id=1))),
        (CommandFlow(consumer_id=1), None),
    ],
)
def test_a_command_to_the_connection_is_an_event_unless_only_clients_send_it(command: Any, event: object) -> None:
    assert event_of(command) == event
