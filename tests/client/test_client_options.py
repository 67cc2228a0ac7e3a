import logging
import pickle
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.client.client_options import ClientOptions

URL = "pulsar://localhost:6650"

WRONG: list[tuple[str, Any]] = [
    *((name, 0) for name in ("operation_timeout_seconds", "io_threads", "message_listener_threads")),
    *((name, 0) for name in ("concurrent_lookup_requests", "connection_timeout_ms", "connections_per_broker")),
    *((name, 0) for name in ("keep_alive_interval_seconds", "initial_backoff_interval_ms", "max_backoff_interval_ms")),
    *(("stats_interval_in_seconds", -1), ("connection_max_idle_seconds", -1)),
    *(("logger", "pulsar"), ("logger", pulsar.LoggerLevel.Info)),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(pulsar.InvalidArgument, match=rf"^{name} takes "):
        ClientOptions(**{"service_url": URL, name: value})


@pytest.mark.parametrize("url", ["", "localhost:6650", "foo://a", "pulsar://", None, 5])
def test_a_wrong_service_url_is_refused_as_that(url: Any) -> None:
    with pytest.raises(pulsar.InvalidUrl):
        ClientOptions(url)


def test_what_is_no_service_is_told_all_that_is_one() -> None:
    with pytest.raises(pulsar.InvalidUrl, match="a str, an AutoClusterFailover or a ServiceInfoProvider, not int"):
        ClientOptions(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "together", "text"),
    [
        (URL, {"use_tls": True}, r"write pulsar\+ssl://"),
        (URL, {"tls_private_key_file_path": "/key"}, "needs its tls_certificate_file_path"),
        (URL, {"initial_backoff_interval_ms": 5, "max_backoff_interval_ms": 4}, "5 is more than .*4"),
    ],
)
def test_what_excludes_each_other_is_refused_as_a_configuration(url: str, together: dict[str, Any], text: str) -> None:
    with pytest.raises(pulsar.InvalidConfiguration, match=text):
        ClientOptions(url, **together)


@pytest.mark.parametrize(
    "logger",
    [None, logging.getLogger("app"), pulsar.ConsoleLogger(), pulsar.FileLogger(pulsar.LoggerLevel.Debug, "/tmp/x")],  # noqa: S108
)
def test_every_kind_of_logger_is_taken(logger: Any) -> None:
    assert ClientOptions(URL, logger=logger).logger is logger


def test_a_certificate_that_holds_its_key_stands_alone_and_tls_may_be_said_twice() -> None:
    options = ClientOptions("pulsar+ssl://a", use_tls=True, tls_certificate_file_path="/cert")
    assert options.tls_certificate_file_path == "/cert"


def test_a_secret_is_in_no_repr_of_options() -> None:
    assert "open-sesame" not in repr(ClientOptions(URL, pulsar.AuthenticationToken("open-sesame")))


def test_options_can_be_pickled_but_not_be_changed() -> None:
    options = ClientOptions(URL, pulsar.AuthenticationToken("open-sesame"), logger=logging.getLogger("app"))
    twin = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own pickle
    assert (twin.service_url, twin.logger) == (URL, options.logger)
    assert twin.authentication.fetch() == ("token", b"open-sesame")
    with pytest.raises(AttributeError):
        options.service_url = "another"  # type: ignore[misc]
