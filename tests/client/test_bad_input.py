"""Every argument of every public call: what is of the wrong type, or out of all bounds, is refused before it is sent.

Nothing is listed by hand that the signatures say themselves. What an argument may be is read off its annotation, and
all else of a pool of bad values has to be refused. So an argument that is new and has no check fails here, and so does
a public call that nobody has put into one of the two tables.
"""

import enum
import inspect
import math
import re
import socket
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.inspection import FaultyBroker, Inspector
from pulsar_actors.client.telemetry import ClientTelemetry
from pulsar_actors.wire.PulsarApi_pb2 import CommandPing, CommandPong
from tests.support.written import as_written

HALF = "half of a \ud800 pair"


class Index:
    """Is no int, and can stand for one where Python wants an index, as numpy's numbers do."""

    def __index__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Index()"


class Colour(enum.IntEnum):
    """A number with a meaning that nothing here has."""

    RED = 1


class Patterned:
    """Has what a compiled pattern has, and is none."""

    pattern = "public/default/.*"


POOL: Sequence[Any] = (
    None, True, False, 0, 1, -2, 2**63, 10**30, -(10**30), 1.5, math.nan, math.inf, -math.inf, 1j, Decimal(1), Index(),
    Colour.RED, "", "text", HALF, b"bytes", bytearray(b"bytes"), [], [object()], ["text"], [HALF], [None], ["text", 1],
    (1, 2), {}, {"a": "b"}, {"a": 1}, {1: "a"}, {"a": None}, {"a": HALF}, {HALF: "a"}, {b"a": "b"}, {"text"}, object,
    object(), len, Patterned(), re.compile(b"bytes"),
)  # fmt: skip
REFUSALS = (TypeError, pulsar.InvalidArgument, pulsar.OperationNotSupported)


class Call(NamedTuple):
    """A public call: who has it, its name, and arguments that are right, without those that have defaults."""

    owner: type
    name: str
    given: dict[str, Any]

    @property
    def function(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.owner, self.name)
        return function

    def parameters(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(as_written(self.owner, self.name)).parameters
        return {name: one for name, one in found.items() if name != "self"}


TOPIC = {"topic": "refused"}
CLUSTER = pulsar.ServiceInfo("pulsar://h")
CALLS = [
    Call(pulsar.Client, "__init__", {}),
    Call(pulsar.Client, "create_producer", TOPIC),
    Call(pulsar.Client, "subscribe", {**TOPIC, "subscription_name": "s"}),
    Call(pulsar.Client, "create_reader", {**TOPIC, "start_message_id": pulsar.MessageId.earliest}),
    Call(pulsar.Client, "get_topic_partitions", {}),
    Call(pulsar.Client, "new_transaction", {}),
    Call(pulsar.Client, "inspect", {}),
    Call(pulsar.Producer, "send", {"content": b"x"}),
    Call(pulsar.Producer, "send_async", {"content": b"x"}),
    Call(pulsar.Producer, "send_many", {"contents": [b"x"]}),
    Call(pulsar.Consumer, "receive", {}),
    Call(pulsar.Consumer, "receive_many", {"max_messages": 1}),
    Call(pulsar.Consumer, "seek", {}),
    Call(pulsar.Consumer, "acknowledge", {"message": []}),
    Call(pulsar.Consumer, "acknowledge_cumulative", {"message": []}),
    Call(pulsar.Consumer, "acknowledge_async", {"message": []}),
    Call(pulsar.Consumer, "acknowledge_cumulative_async", {"message": []}),
    Call(pulsar.Consumer, "negative_acknowledge", {}),
    Call(pulsar.Consumer, "reconsume_later", {"message": [], "delay_ms": 0}),
    Call(pulsar.Consumer, "reconsume_later_async", {"message": [], "delay_ms": 0}),
    Call(pulsar.Consumer, "unsubscribe", {}),
    Call(pulsar.Client, "create_table_view", TOPIC),
    Call(pulsar.TableView, "get", {"key": "k"}),
    Call(pulsar.TableView, "for_each", {"callback": len}),
    Call(pulsar.TableView, "for_each_and_listen", {"callback": len}),
    Call(pulsar.TableView, "listen", {"callback": len}),
    Call(pulsar.TableView, "refresh", {}),
    Call(pulsar.Reader, "read_next", {}),
    Call(pulsar.Reader, "read_many", {"max_messages": 1}),
    Call(pulsar.Reader, "seek", {}),
    Call(pulsar.ConsumerBatchReceivePolicy, "__init__", {"max_num_message": 1, "max_num_bytes": 1, "timeout_ms": 1}),
    Call(pulsar.ConsumerDeadLetterPolicy, "__init__", {"max_redeliver_count": 1}),
    Call(pulsar.ConsumerKeySharedPolicy, "__init__", {}),
    Call(pulsar.MultiplierRedeliveryBackoff, "__init__", {}),
    Call(pulsar.ServiceInfo, "__init__", {"service_url": "pulsar://h"}),
    Call(pulsar.AutoClusterFailover, "__init__", {"primary": CLUSTER, "secondary": [CLUSTER]}),
    Call(pulsar.MessageId, "__init__", {}),
    Call(pulsar.MessageId, "deserialize", {"message_id_bytes": pulsar.MessageId.earliest.serialize()}),
    Call(pulsar.MessageId, "wrap", {"msg_id": pulsar.MessageId.earliest}),
    Call(pulsar.MessageBatch, "with_message_id", {}),
    Call(pulsar.MessageBatch, "parse_from", {"data": b"", "size": 1}),
    Call(pulsar.AuthenticationToken, "__init__", {}),
    Call(pulsar.AuthenticationTLS, "__init__", {"certificate_path": "a", "private_key_path": "b"}),
    Call(pulsar.AuthenticationAthenz, "__init__", {"auth_params_string": "{}"}),
    Call(pulsar.AuthenticationBasic, "__init__", {"username": "a", "password": "b"}),
    Call(pulsar.Authentication, "__init__", {"dynamicLibPath": "token", "authParamsString": "token:abc"}),
    Call(pulsar.AuthenticationOauth2, "__init__", {}),
    Call(pulsar.CryptoKeyReader, "__init__", {"public_key_path": "a", "private_key_path": "b"}),
    Call(pulsar.NamedCryptoKeyReader, "__init__", {}),
    Call(pulsar.EncryptionKeyInfo, "__init__", {"key": b"a"}),
    Call(pulsar.ConsoleLogger, "__init__", {}),
    Call(pulsar.History, "load", {}),
    Call(pulsar.History, "save", {}),
    Call(pulsar.FileLogger, "__init__", {"log_level": pulsar.LoggerLevel.Info, "log_file": "log"}),
]

NOT_FOR_USERS = {
    "made by the package": {
        "BrokerConsumerStats.__init__", "BrokerConsumerStats.of", "BrokerConsumerStats.of_all",
        "Client.on", "ClientStats.__init__", "Consumer.__init__", "ConsumerStats.__init__",
        "EncryptionContext.__init__",
        "Producer.__init__", "Producer.forward", "Producer.prepare", "Producer.prepare_in", "Producer.prepare_many",
        "Producer.reply_in",
        "Producer.refused", "Producer.send_encoded", "ProducerStats.__init__",
        "Reader.__init__", "Rates.count", "Rates.index", "TableView.__init__", "Transaction.__init__",
        "EncryptionKey.count", "EncryptionKey.index", "History.count", "History.index", "History.of",
        "History.of_machine", "StateChange.count", "StateChange.index",
    },
    "checked by send, which these are for": {
        "MessageToSend.count", "MessageToSend.index",
    },
    "called by the package": {
        "CryptoKeyReader.get_private_key", "CryptoKeyReader.get_public_key",
        "EncryptionKeyReader.get_private_key", "EncryptionKeyReader.get_public_key",
        "NamedCryptoKeyReader.get_private_key", "NamedCryptoKeyReader.get_public_key",
        "Authentication.fetch", "AuthenticationAthenz.fetch", "AuthenticationAthenz.judged",
        "AuthenticationBasic.fetch", "AuthenticationOauth2.fetch",
        "AuthenticationTLS.fetch", "AuthenticationToken.fetch",
        "Authentication.judged", "AuthenticationBasic.judged", "AuthenticationOauth2.judged",
        "AuthenticationTLS.judged", "AuthenticationToken.judged",
        "BytesSchema.decode", "BytesSchema.encode", "Consumer.owner_of", "ConsumerBatchReceivePolicy.is_exceeded_by",
        "ConsumerBatchReceivePolicy.is_filled_by",
        "ConsumerEventListener.became_active", "ConsumerEventListener.became_inactive",
        "ConsumerInterceptor.before_consume", "ConsumerInterceptor.on_ack_timeout_send",
        "ConsumerInterceptor.on_acknowledge", "ConsumerInterceptor.on_acknowledge_cumulative",
        "ConsumerInterceptor.on_negative_acks_send", "ReaderInterceptor.before_read",
        "ServiceInfoProvider.initialize",
        "ConsumerInterceptor.on_partitions_change", "ProducerInterceptor.on_partitions_change",
        "ProducerInterceptor.before_send", "ProducerInterceptor.eligible",
        "ProducerInterceptor.on_send_acknowledgement", "Schema.decode", "Schema.encode",
        "StringSchema.decode", "StringSchema.encode",
        *(
            f"{schema}.{method}"
            for schema in ("BytesSchema", "Schema", "StringSchema")
            for method in ("attach_client", "decode_message", "decode_written", "encode_message", "for_topic")
        ),
        "Schema.__init__",
    },
    "called by the runtime of functions, or by its own subclass": {
        f"{kind.__name__}.{method}"
        for kind in (
            pulsar.Context, pulsar.Function, pulsar.IdentitySerDe, pulsar.PickleSerDe, pulsar.SerDe,
        )
        for method, function in inspect.getmembers(kind, inspect.isfunction)
        if not method.startswith("_") and len(inspect.signature(function).parameters) > 1
    },
}  # fmt: skip

# A negative number means none, as in the official client.
NEGATIVE = {"timeout_millis", "max_num_message", "max_num_bytes", "timeout_ms"}

# A text that is looked up, and may be any: what no message can have is not found.
LOOKED_UP = {"key"}

# Arguments that an error does not call by their names.
SAID_AS = {"contents": "content", "message": "a Message", "service_url": "a service URL", "data": "bytes"}


def is_content(value: Any) -> bool:
    return value is None or isinstance(value, (bytes, bytearray))


# What arguments take whose annotation does not say it.
OF_ANY_TYPE: dict[str, Callable[[Any], bool]] = {
    "content": is_content,
    "contents": lambda value: isinstance(value, (list, tuple, set)) and all(map(is_content, value)),
    "crypto_key_reader": lambda value: value is None or value == "",
    "broker": lambda value: value is None,
}


def takes(annotation: Any, value: Any) -> bool:
    """Tell whether a value may be right for an annotation; numbers have bounds of their own within it."""
    kind = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if kind in (typing.Union, types.UnionType):
        return any(takes(one, value) for one in arguments)
    if kind in CONTAINERS:
        return CONTAINERS[kind](arguments, value)
    if kind in PLAIN:
        return PLAIN[kind](value)
    if kind is Any:
        return True
    return isinstance(value, kind)


def is_number(kinds: tuple[type, ...], value: Any) -> bool:
    is_plain = isinstance(value, kinds) and not isinstance(value, (bool, enum.Enum))
    return is_plain and -1 <= value < 2**63


def is_dict(arguments: Sequence[Any], value: Any) -> bool:
    return isinstance(value, dict) and all(
        takes(arguments[0], key) and takes(arguments[1], one) for key, one in value.items()
    )


def is_sequence(arguments: Sequence[Any], value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(takes(arguments[0], one) for one in value)


PLAIN: dict[Any, Callable[[Any], bool]] = {
    types.NoneType: lambda value: value is None,
    int: lambda value: is_number((int,), value),
    float: lambda value: is_number((int, float), value),
    str: lambda value: isinstance(value, str) and value != HALF,
    Callable: callable,
}
PLAIN[typing.get_origin(Callable[..., Any])] = callable
CONTAINERS: dict[Any, Callable[[Sequence[Any], Any], bool]] = {
    dict: is_dict,
    list: is_sequence,
    typing.get_origin(Sequence[Any]): is_sequence,
    tuple: lambda arguments, value: isinstance(value, tuple) and len(value) == len(arguments),
}


def bad_values(call: Call, parameter: inspect.Parameter) -> list[Any]:
    names: dict[str, Any] = {name: getattr(pulsar, name) for name in pulsar.__all__}  # some are loaded on demand
    names |= {"ClientTelemetry": ClientTelemetry, "FaultyBroker": FaultyBroker, "Inspector": Inspector}
    annotation = typing.get_type_hints(as_written(call.owner, call.name), localns=names)[parameter.name]
    if parameter.name in OF_ANY_TYPE:
        is_right = OF_ANY_TYPE[parameter.name]
        return [value for value in POOL if not is_right(value)]
    bad = [value for value in POOL if not takes(annotation, value)]
    if parameter.name in NEGATIVE:
        bad.remove(-2)
    if parameter.name in LOOKED_UP:
        return [value for value in bad if not isinstance(value, str)]
    may_be_empty = call.owner is pulsar.CryptoKeyReader  # a producer needs one file, a consumer the other
    if annotation is str and parameter.default is inspect.Parameter.empty and not may_be_empty:
        bad.append("")
    return bad


CASES = [
    pytest.param(call, name, id=f"{call.owner.__name__}.{call.name}: {name}")
    for call in CALLS
    for name in call.parameters()
]


class Listening(NamedTuple):
    """A port that nobody serves: who connects waits there, and is seen."""

    server: socket.socket

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.server.getsockname()[1]}"

    def nobody_came(self) -> bool:
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return True
        return False


@pytest.fixture(scope="module")
def port() -> Iterator[Listening]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield Listening(server)


@pytest.fixture(scope="module")
def unconnected(port: Listening) -> Iterator[pulsar.Client]:
    with pulsar.Client(port.url, operation_timeout_seconds=1) as client:
        yield client


class Handles(NamedTuple):
    """One of each, of a broker that notes what it is told."""

    told: list[Any]
    by_kind: dict[type, Any]
    by_call: dict[str, Any]


@pytest.fixture(scope="module")
def handles(broker: EmbeddedBroker) -> Iterator[Handles]:
    told: list[Any] = []
    with pulsar.Client(broker.service_url) as client:
        held: dict[type, Any] = {
            pulsar.MessageBatch: pulsar.MessageBatch(),
            pulsar.History: pulsar.History(),
            pulsar.Producer: client.create_producer("bad-input"),
            pulsar.Consumer: client.subscribe("bad-input", "s"),
            pulsar.Reader: client.create_reader("bad-input", pulsar.MessageId.latest),
            pulsar.TableView: client.create_table_view("bad-input"),
        }
        held[pulsar.Consumer].get_last_message_id()
        held[pulsar.Reader].has_message_available()  # by their answers, all that was said before has been heard
        puts_off = client.subscribe("put-off", "s", pulsar.ConsumerType.Shared, enable_retry=True)
        handles = Handles(told, held, dict.fromkeys(("reconsume_later", "reconsume_later_async"), puts_off))
        client.get_topic_partitions("put-off")  # likewise
        fault = broker.faults.control(lambda seen: told.append(seen.command))
        yield handles
        fault.remove()


@pytest.mark.parametrize(("call", "name"), CASES)
def test_what_is_wrong_is_refused_and_nothing_leaves(
    call: Call, name: str, port: Listening, unconnected: pulsar.Client, handles: Handles
) -> None:
    handles.told.clear()
    owner = handles.by_call.get(call.name) or {pulsar.Client: unconnected, **handles.by_kind}.get(call.owner)
    made = call.owner if call.name == "__init__" else getattr(call.owner if owner is None else owner, call.name)
    given = (
        {"service_url": port.url, **call.given}
        if call.owner is pulsar.Client and call.name == "__init__"
        else call.given
    )
    accepted = [
        value for value in bad_values(call, call.parameters()[name]) if not refuses(made, {**given, name: value}, name)
    ]
    assert accepted == []
    assert port.nobody_came()
    assert [one for one in handles.told if not isinstance(one, (CommandPing, CommandPong))] == []


def refuses(made: Callable[..., Any], arguments: dict[str, Any], name: str) -> bool:
    """Tell whether a call raises an error that names the argument."""
    try:
        found = made(**arguments)
    except REFUSALS as refusal:
        return SAID_AS.get(name, name) in str(refusal) or "the name of a topic" in str(refusal)
    except pulsar.PulsarException:
        return False
    if isinstance(found, pulsar.Client):
        found.close()
    return False


CLIENT: dict[str, Any] = {"service_url": "pulsar://127.0.0.1:1"}
SUBSCRIBE = {"topic": "refused", "subscription_name": "s"}
PRODUCE = {"topic": "refused"}
LONG = "\u00fc" * (5 << 19)  # of two bytes each
TOO_LONG = LONG + "x"
PROPERTIES = {LONG[:9]: LONG}
FORBIDDEN: list[tuple[str, dict[str, Any]]] = [
    ("Client", {**CLIENT, "listener_name": TOO_LONG}),
    ("create_producer", {**PRODUCE, "topic": TOO_LONG}),
    ("create_producer", {**PRODUCE, "producer_name": TOO_LONG}),
    ("create_producer", {**PRODUCE, "producer_name": "orders/chunks"}),
    ("create_producer", {**PRODUCE, "properties": PROPERTIES}),
    ("subscribe", {**SUBSCRIBE, "topic": ["a", TOO_LONG]}),
    ("subscribe", {**SUBSCRIBE, "subscription_name": TOO_LONG}),
    ("subscribe", {**SUBSCRIBE, "consumer_name": TOO_LONG}),
    ("subscribe", {**SUBSCRIBE, "properties": PROPERTIES}),
    ("subscribe", {**SUBSCRIBE, "subscription_properties": PROPERTIES}),
    ("subscribe", {**SUBSCRIBE, "subscription_name": LONG[:99], "consumer_name": LONG[99:]}),
    ("create_reader", {**PRODUCE, "start_message_id": pulsar.MessageId.earliest, "reader_name": TOO_LONG}),
    ("create_reader", {**PRODUCE, "start_message_id": pulsar.MessageId.earliest, "subscription_role_prefix": TOO_LONG}),
    ("Client", {**CLIENT, "tls_trust_certs_file_path": "no\0file"}),
    ("Client", {**CLIENT, "tls_certificate_file_path": "no\0file"}),
    *(("Client", {"service_url": url}) for url in ("pulsar://a:0", "pulsar://a:65536", "pulsar://a:b", " ")),
    ("create_producer", {**PRODUCE, "chunk_max_message_size": 1000}),
    ("create_producer", {"topic": "persistent://public/default/"}),
    ("AuthenticationTLS", {"certificate_path": "no\0file", "private_key_path": "key.pem"}),
    ("AuthenticationTLS", {"certificate_path": "cert.pem", "private_key_path": "no\0file"}),
    ("Authentication", {"dynamicLibPath": "tls", "authParamsString": "tlsCertFile:no\0file,tlsKeyFile:key.pem"}),
    ("FileLogger", {"log_level": pulsar.LoggerLevel.Info, "log_file": "no\0file"}),
]


@pytest.mark.parametrize(("call", "given"), FORBIDDEN, ids=lambda one: repr(one)[:200])
def test_what_cannot_go_together_is_refused_and_nothing_leaves(
    call: str, given: dict[str, Any], port: Listening, unconnected: pulsar.Client
) -> None:
    made = getattr(unconnected, call, None) or getattr(pulsar, call)
    with pytest.raises(pulsar.InvalidArgument):
        made(**given)
    assert port.nobody_came()


class Text(str):
    """A str to all intents and purposes."""

    __slots__ = ()


class Number(int):
    """An int likewise."""


def test_what_is_a_text_or_a_number_by_inheritance_is_taken_as_one(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(Text(topic), producer_name=Text("mine"), properties={Text("a"): Text("b")})
    consumer = client.subscribe(Text(topic), Text("s"), receiver_queue_size=Number(5))
    producer.send(b"x", {Text("a"): Text("b")}, Text("key"), sequence_id=Number(7), event_timestamp=Number(9))
    message = consumer.receive(Number(10_000))
    assert (message.properties(), message.partition_key(), message.event_timestamp()) == ({"a": "b"}, "key", 9)
    assert producer.last_sequence_id() == 7
    producer.close()
    consumer.close()


def public_calls() -> set[str]:
    found: set[str] = set()
    for name in pulsar.__all__:
        one = getattr(pulsar, name)
        if not inspect.isclass(one) or issubclass(one, (BaseException, enum.Enum)):
            continue
        for method, function in inspect.getmembers(one, callable):
            if (method.startswith("_") and method != "__init__") or function is object.__init__:
                continue
            if [each for each in inspect.signature(as_written(one, method)).parameters if each != "self"]:
                found.add(f"{name}.{method}")
    return found


def test_every_public_call_is_in_a_table() -> None:
    listed = {f"{call.owner.__name__}.{call.name}" for call in CALLS}.union(*NOT_FOR_USERS.values())
    assert public_calls() ^ listed == set()
