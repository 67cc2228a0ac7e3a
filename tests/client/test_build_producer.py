from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_actors.client import build_producer as producing
from pulsar_actors.client.context import HandleSettings
from pulsar_actors.client.enums import BatchingType, CompressionType, ProducerAccessMode
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.schema import StringSchema
from pulsar_actors.machines.connection_commands import PRODUCER
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.runtime.batch_builder import BatchBuilderSettings
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.runtime.messages import Registration
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.manual_loop import ManualLoop

NOBODY: Any = None
CONTEXT: Any = SimpleNamespace(engine=SimpleNamespace(interleaving=THREADS, loops=[ManualLoop()]), limiter=None)
COMMON = HandleSettings(20.0, first_backoff=0.5, longest_backoff=4.0)


def options(**given: Any) -> ProducerOptions:
    return ProducerOptions("t", **given)


def test_the_broker_is_told_what_the_user_chose() -> None:
    given = options(
        producer_name="mine",
        properties={"a": "1"},
        schema=StringSchema(),
        access_mode=ProducerAccessMode.ExclusiveWithFencing,
    )
    command = producing.producer_command(given, 7, "first")
    assert (command.topic, command.producer_id, command.producer_name) == ("persistent://public/default/t", 7, "mine")
    assert [(pair.key, pair.value) for pair in command.metadata] == [("a", "1")]
    assert command.schema.type == pb.Schema.String
    assert command.producer_access_mode == pb.ExclusiveWithFencing
    assert command.initial_subscription_name == "first"


def test_what_the_user_did_not_choose_is_left_to_the_broker() -> None:
    command = producing.producer_command(options(), 7, "")
    assert not command.HasField("producer_name")
    assert not command.HasField("initial_subscription_name")
    assert not command.HasField("schema")


def test_a_machine_has_the_clients_timeout_and_pauses_and_the_users_first_id() -> None:
    given = options(initial_sequence_id=41)
    registration, (send_queue, _) = (
        Registration(PRODUCER, 7, NOBODY, 1, ManualLoop()),
        producing.new_send_queue(CONTEXT, given),
    )
    machine = producing.new_producer_machine(COMMON, given, registration, send_queue, "")
    assert machine.sequence_ids.take() == 42
    assert machine.operation_timeout == 20.0
    assert [machine._backoff.next_delay() for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(("limit", "granted"), [(2, 2), (0, 5)])
def test_so_many_messages_may_be_pending(limit: int, granted: int) -> None:
    pending = producing.new_send_queue(CONTEXT, options(max_pending_messages=limit))[0].pending
    assert [pending.messages.has_place(waiting) for waiting in range(5)].count(True) == granted


def test_batches_have_the_users_limits_and_without_batching_there_are_none() -> None:
    given = options(
        batching_enabled=True,
        batching_max_messages=3,
        batching_max_allowed_size_in_bytes=100,
        batching_max_publish_delay_ms=50,
    )
    assert producing.batch_limits(given) == BatchLimits(3, 100, 0.05)
    assert producing.batch_limits(options(batching_max_messages=3)) is None


def test_the_manner_of_sending_is_the_users() -> None:
    given = options(
        compression_type=CompressionType.ZSTD, send_timeout_millis=1500, batching_type=BatchingType.KeyBased
    )
    assert producing.new_batch_builder_settings(given, None) == BatchBuilderSettings(
        pb.CompressionType.ZSTD, 1.5, by_key=True, in_chunks=False
    )
    given = options(send_timeout_millis=0, chunking_enabled=True)
    assert producing.new_batch_builder_settings(given, None) == BatchBuilderSettings(
        pb.CompressionType.NONE, None, by_key=False, in_chunks=True
    )
