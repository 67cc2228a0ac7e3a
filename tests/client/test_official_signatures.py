"""Whoever writes `import pulsar_actors as pulsar` keeps the arguments that they have, with the defaults that they have.

The table has what differs on purpose; an entry that no longer differs is a fault too.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable
from enum import Enum
from inspect import Parameter, signature
from types import ModuleType
from typing import Any

import pulsar
import pytest

import pulsar_actors as ours
from pulsar_actors.client.authentication import (
    Authentication,
    AuthenticationAthenz,
    AuthenticationBasic,
    AuthenticationOauth2,
    AuthenticationTLS,
    AuthenticationToken,
)
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consumer_options import ConsumerOptions, ReaderOptions, TableViewOptions
from pulsar_actors.client.loggers import ConsoleLogger, FileLogger
from pulsar_actors.client.message import MessageBatch
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
)
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
from pulsar_actors.client.table_view import TableView
from pulsar_actors.client.unimplemented import UNIMPLEMENTED

PAIRS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (ClientOptions, pulsar.Client),
    (ProducerOptions, pulsar.Client.create_producer),
    (ConsumerOptions, pulsar.Client.subscribe),
    (ReaderOptions, pulsar.Client.create_reader),
    (TableViewOptions, pulsar.Client.create_table_view),
    (TableView.get, pulsar.TableView.get),
    (TableView.for_each, pulsar.TableView.for_each),
    (TableView.for_each_and_listen, pulsar.TableView.for_each_and_listen),
    (TableView.close, pulsar.TableView.close),
    (MessageId, pulsar.MessageId),
    (MessageId.deserialize, pulsar.MessageId.deserialize),
    (MessageBatch.parse_from, pulsar.MessageBatch.parse_from),
    (MessageBatch.with_message_id, pulsar.MessageBatch.with_message_id),
    (ConsumerDeadLetterPolicy, pulsar.ConsumerDeadLetterPolicy),
    (ConsumerBatchReceivePolicy, pulsar.ConsumerBatchReceivePolicy),
    (ConsumerKeySharedPolicy, pulsar.ConsumerKeySharedPolicy),
    (Authentication, pulsar.Authentication),
    (AuthenticationToken, pulsar.AuthenticationToken),
    (AuthenticationAthenz, pulsar.AuthenticationAthenz),
    (AuthenticationBasic, pulsar.AuthenticationBasic),
    (AuthenticationTLS, pulsar.AuthenticationTLS),
    (AuthenticationOauth2, pulsar.AuthenticationOauth2),
    (ConsoleLogger, pulsar.ConsoleLogger),
    (FileLogger, pulsar.FileLogger),
    (ServiceInfo, pulsar.ServiceInfo),
    (AutoClusterFailover, pulsar.AutoClusterFailover),
    (ServiceInfoProvider.initialize, pulsar.ServiceInfoProvider.initialize),
]

# Whose, which argument: our default, the official one.
DEVIATIONS: dict[tuple[str, str], tuple[Any, Any]] = {
    ("ClientOptions", "tls_validate_hostname"): (True, False),
}
OURS_ALONE = {
    "ClientOptions": {
        "connections_per_broker": 1,
        "keep_alive_interval_seconds": 30,
        "connection_max_idle_seconds": 60,
        "tcp_no_delay": True,
        "initial_backoff_interval_ms": 100,
        "max_backoff_interval_ms": 60_000,
        "memory_limit_bytes": 0,
        "partitions_update_interval": 60,
    },
    "ConsumerOptions": {
        "ack_receipt_enabled": False,
        "ack_grouping_time_ms": 100,
        "ack_grouping_max_size": 1000,
        "negative_ack_redelivery_backoff": None,
        "ack_timeout_redelivery_backoff": None,
        "expire_time_of_incomplete_chunked_message_ms": 60_000,
        "priority_level": 0,
        "subscription_mode": "SubscriptionMode.Durable",
        "subscription_properties": None,
        "start_paused": False,
        "consumer_event_listener": None,
        "interceptors": (),
        "enable_retry": False,
    },
    "ConsumerDeadLetterPolicy": {"retry_letter_topic": None},
    "ReaderOptions": {
        "max_pending_chunked_message": 10,
        "auto_ack_oldest_chunked_message_on_queue_full": False,
        "expire_time_of_incomplete_chunked_message_ms": 60_000,
        "interceptors": (),
    },
    "ProducerOptions": {
        "hashing_scheme": "HashingScheme.BoostHash",
        "chunk_max_message_size": -1,
        "interceptors": (),
    },
    "TableView.get": {"default": None},
}

each_pair = pytest.mark.parametrize(("ours", "official"), PAIRS, ids=[pair[0].__qualname__ for pair in PAIRS])


def arguments_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names in order, with the defaults; objects that mean the same are written the same."""
    found = {name: plain(one.default) for name, one in signature(function).parameters.items()}
    found.pop("self", None)
    return found


def plain(default: Any) -> Any:
    if type(default).__name__ == "BytesSchema":
        return "BytesSchema"
    return str(default) if hasattr(default, "value") else default  # a member of an enum


@each_pair
def test_names_and_their_order_are_the_official_ones_and_more_come_after(
    ours: Callable[..., Any], official: Callable[..., Any]
) -> None:
    assert list(arguments_of(ours)) == [*arguments_of(official), *OURS_ALONE.get(ours.__qualname__, {})]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Client.__init__, ClientOptions),
        (Client.create_producer, ProducerOptions),
        (Client.subscribe, ConsumerOptions),
        (Client.create_reader, ReaderOptions),
        (Client.create_table_view, TableViewOptions),
    ],
    ids=lambda one: one.__qualname__,
)
def test_a_method_and_its_options_have_the_same_names_and_defaults(
    method: Callable[..., Any], options: Callable[..., Any]
) -> None:
    assert list(arguments_of(method).items()) == list(arguments_of(options).items())


@each_pair
def test_defaults_are_the_official_ones_but_for_the_table(
    ours: Callable[..., Any], official: Callable[..., Any]
) -> None:
    here, there = arguments_of(ours), arguments_of(official)
    differing = {
        (ours.__qualname__, name): (here[name], there[name])
        for name in there
        if here[name] != there[name] or type(here[name]).__name__ != type(there[name]).__name__
    }
    assert differing == {key: values for key, values in DEVIATIONS.items() if key[0] == ours.__qualname__}


@pytest.mark.parametrize("owner", sorted(OURS_ALONE))
def test_arguments_of_our_own_have_defaults_so_that_nobody_needs_them(owner: str) -> None:
    (ours,) = (one for one, _ in PAIRS if one.__qualname__ == owner)
    found = arguments_of(ours)
    assert {name: found[name] for name in OURS_ALONE[owner]} == OURS_ALONE[owner]


@each_pair
def test_every_official_argument_can_be_given_by_its_place_and_by_its_name(
    ours: Callable[..., Any], official: Callable[..., Any]
) -> None:
    own = OURS_ALONE.get(ours.__qualname__, {})
    kinds = {one.kind for one in signature(ours).parameters.values() if one.name not in own}
    assert kinds <= {Parameter.POSITIONAL_OR_KEYWORD}


# What `help()` says of the calls that take many arguments.

CALLS = (
    Client.__init__,
    Client.create_producer,
    Client.subscribe,
    Client.create_reader,
    Client.create_table_view,
    Producer.send,
)


def shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    value = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
    return f"{parameter.name} = {value}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_every_argument_is_explained_with_its_default(call: Callable[..., Any]) -> None:
    heads = re.findall(r"^(\w+(?: = \S+)?)$", inspect.getdoc(call) or "", re.MULTILINE)
    assert heads == [shown(one) for name, one in inspect.signature(call).parameters.items() if name != "self"]


# The names of the package.

MODULES: dict[str, tuple[ModuleType, ModuleType]] = {
    "pulsar_actors": (ours, pulsar),
    "pulsar_actors.schema": (ours.schema, pulsar.schema),
}
NOT_PUBLIC = {"BatchReceivePolicy", "KeySharedPolicy", "DeadLetterPolicyBuilder", "timedelta"}
"""What lies about there: the inside of its policies, and a class of Python's."""
NO_MODULES_OF_OURS = {"_pulsar", "__about__", "schema", "definition", "schema_avro", "schema_protobuf"}
"""How the official package is divided up, which nobody imports by name."""

each_name = pytest.mark.parametrize(
    ("module", "name"), [(at, name) for at in UNIMPLEMENTED for name in sorted(UNIMPLEMENTED[at])]
)


def public_names(module: Any) -> set[str]:
    classes = {name for name, one in inspect.getmembers(module, inspect.isclass) if not name.startswith("_")}
    return classes | {one.name for one in pkgutil.iter_modules(module.__path__)} - NO_MODULES_OF_OURS


@each_name
def test_a_name_that_is_not_there_yet_is_said_to_be_so(module: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name}, which the official client has, is not there yet in {module}$"):
        getattr(MODULES[module][0], name)
    assert not hasattr(MODULES[module][0], name)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_the_official_package_is_there_or_said_to_be_missing(module: str) -> None:
    here, there = MODULES[module]
    missing = {name for name in public_names(there) if not hasattr(here, name)}
    assert missing - NOT_PUBLIC == UNIMPLEMENTED[module]


def test_importing_one_names_it() -> None:
    with pytest.raises(ImportError, match="EncryptionKey"):
        from pulsar_actors import EncryptionKey  # type: ignore[attr-defined]  # noqa: F401, PLC0415 - it fails


@pytest.mark.parametrize("module", MODULES)
def test_any_other_name_is_missing_as_of_any_module(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'Clinet'") as caught:
        MODULES[module][0].Clinet  # noqa: B018 - it raises
    assert (caught.value.name, caught.value.obj) == ("Clinet", MODULES[module][0])  # so that Python suggests another
