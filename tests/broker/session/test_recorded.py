"""What the broker says, beside what a real broker said: the same fields, whatever their values."""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import FrameReader, decode_command
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import TOPIC, Bench, Caller, connect_command, only

FOLDER = Path(__file__).parents[2] / "vectors"
NAMESPACE = "public/default"
SHARED = pb.CommandSubscribe.Shared
STRING = pb.Schema(name="String", type=pb.Schema.String, schema_data=b"s", properties=[pb.KeyValue(key="a", value="b")])
INTEGER = pb.Schema(name="Int32", type=pb.Schema.Int32, schema_data=b"")


def shape(message: Message, prefix: str = "") -> frozenset[str]:
    """Name the fields that are set, and those of messages inside it."""
    names: set[str] = set()
    for field, value in message.ListFields():
        names.add(prefix + field.name)
        for inner in value if field.message_type and not isinstance(value, Message) else [value]:
            if isinstance(inner, Message):
                names |= shape(inner, f"{prefix}{field.name}.")
    return frozenset(names)


def recorded() -> dict[type[Message], set[frozenset[str]]]:
    """Give the shapes that each command of a real broker had."""
    shapes: dict[type[Message], set[frozenset[str]]] = defaultdict(set)
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            said: dict[str, Any] = json.loads(line)
            if said.get("from") == "broker":
                (frame,) = FrameReader().feed(bytes.fromhex(said["frame"]))
                command = decode_command(frame.command)
                shapes[type(command)].add(shape(command))
    return shapes


REAL = recorded()


def ack(**fields: Any) -> pb.CommandAck:
    named = pb.MessageIdData(ledgerId=1, entryId=0, **fields)
    return pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[named], request_id=1)


def connecting(bench: Bench) -> list[Message]:
    return bench.call().say(connect_command())


def looking_up(bench: Bench) -> list[Message]:
    return bench.client().say(
        pb.CommandLookupTopic(topic="t", request_id=1),
        pb.CommandPartitionedTopicMetadata(topic="t", request_id=2),
        pb.CommandPartitionedTopicMetadata(topic="persistent://public/nowhere/t", request_id=3),
    )


def listing(bench: Bench) -> list[Message]:
    caller = bench.client()
    pattern = "public/default/.*"
    heard = caller.say(
        pb.CommandGetTopicsOfNamespace(request_id=1, namespace=NAMESPACE, topics_pattern=pattern),
        pb.CommandWatchTopicList(request_id=2, watcher_id=0, namespace=NAMESPACE, topics_pattern=pattern),
    )
    heard += caller.say(pb.CommandProducer(topic="t", producer_id=0, request_id=3))
    return heard + caller.say(pb.CommandGetTopicsOfNamespace(request_id=1, namespace=NAMESPACE))


def producing(bench: Bench) -> list[Message]:
    caller = bench.client()
    heard = caller.say(pb.CommandProducer(topic="t", producer_id=0, request_id=1, producer_name="mine"))
    heard += caller.say(pb.CommandProducer(topic="t", producer_id=1, request_id=2, producer_name="mine"))
    heard += caller.send(pb.CommandSend(producer_id=0, sequence_id=0))
    exclusive, waiting = pb.ProducerAccessMode.Exclusive, pb.ProducerAccessMode.WaitForExclusive
    for producer_id, mode in ((2, exclusive), (3, exclusive), (4, waiting)):
        asked = pb.CommandProducer(topic="x", producer_id=producer_id, request_id=5, producer_access_mode=mode)
        heard += caller.say(asked)
    bench.broker.cluster.unload(TopicName.parse(TOPIC))
    bench.loop.run()
    return heard + caller.heard()


def consuming(bench: Bench) -> list[Message]:
    caller = bench.client()
    caller.produce()
    caller.send(pb.CommandSend(producer_id=0, sequence_id=0), num_messages_in_batch=3)
    heard = caller.consume(permits=9, subType=SHARED, initialPosition=pb.CommandSubscribe.Earliest)
    heard += caller.say(pb.CommandGetLastMessageId(consumer_id=0, request_id=1), ack(ack_set=[0b110]))
    heard += caller.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    heard += caller.say(ack(), pb.CommandCloseConsumer(consumer_id=0, request_id=2))
    topic = bench.broker.cluster.find_topic(TopicName.parse(TOPIC))
    assert topic is not None
    caller.consume(permits=9, subType=SHARED)
    topic.terminate()
    bench.loop.run()
    return heard + caller.heard()


def with_an_epoch(bench: Bench) -> list[Message]:
    caller = bench.client()
    caller.produce()
    caller.consume(permits=9, consumer_epoch=0)
    return caller.send(pb.CommandSend(producer_id=0, sequence_id=0))


def with_schemas(bench: Bench) -> list[Message]:
    caller: Caller = bench.client()
    return caller.say(
        pb.CommandProducer(topic="t", producer_id=0, request_id=1, schema=STRING),
        pb.CommandGetSchema(request_id=1, topic="t"),
        pb.CommandGetOrCreateSchema(request_id=2, topic="t", schema=INTEGER),
    )


CONVERSATIONS = [connecting, looking_up, listing, producing, consuming, with_an_epoch, with_schemas]


@pytest.mark.parametrize("converse", CONVERSATIONS)
def test_what_the_broker_says_has_the_fields_that_a_real_brokers_words_have(
    converse: Callable[[Bench], list[Message]],
) -> None:
    heard = converse(Bench())
    assert heard
    unlike = [command for command in heard if shape(command) not in REAL[type(command)]]
    assert unlike == []


def test_all_that_a_real_broker_was_heard_to_say_is_compared() -> None:
    said = {type(command) for converse in CONVERSATIONS for command in converse(Bench())}
    transactions = {kind for kind in REAL if "Txn" in kind.__name__ or "TcClient" in kind.__name__}
    by_itself = {
        kind for kind in REAL if kind.__name__ in {"CommandPing", "CommandPong", "CommandActiveConsumerChange"}
    }
    assert set(REAL) - transactions - by_itself <= said | {pb.CommandCloseConsumer}


def test_a_real_broker_announced_what_this_one_does() -> None:
    (ours,) = only(connecting(Bench()), pb.CommandConnected)
    path = FOLDER / "java.jsonl"
    for line in path.read_text().splitlines()[1:]:
        said: dict[str, Any] = json.loads(line)
        if said["command"] == "CONNECTED":
            (frame,) = FrameReader().feed(bytes.fromhex(said["frame"]))
            (real,) = only([decode_command(frame.command)], pb.CommandConnected)
            assert ours.feature_flags == real.feature_flags
            assert (ours.protocol_version, ours.max_message_size) == (real.protocol_version, real.max_message_size)
            return
    pytest.fail("no CONNECTED was recorded")
