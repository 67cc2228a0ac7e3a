from typing import Any

import pytest

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.exceptions import InvalidArgument


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (BrokerOptions, {"host": ""}, "host is the address to listen on, such as 127.0.0.1, not ''"),
        (BrokerOptions, {"host": 3}, "host is the address to listen on, such as 127.0.0.1, not 3"),
        (BrokerOptions, {"port": -1}, "port is a port from 0"),
        (BrokerOptions, {"port": "x"}, r"port is a port from 0 \(any free one\) to 65535, not 'x'"),
        (BrokerOptions, {"web_port": None}, "web_port is a port from 0 .*, not None"),
        (BrokerOptions, {"data_folder": 3}, "data_folder is the path of a folder, not 3"),
        (BrokerOptions, {"data_folder": ""}, "data_folder is the path of a folder, not ''"),
        (BrokerOptions, {"keepalive_seconds": "x"}, "keepalive_seconds is above 0, not 'x'"),
        (BrokerOptions, {"web_port": 65_536}, "web_port is a port from 0"),
        (BrokerOptions, {"tls_port": 70_000}, "tls_port is a port from 0"),
        (BrokerOptions, {"web_tls_port": 70_000}, "web_tls_port is a port from 0"),
        (BrokerOptions, {"certificate_file": "c.pem"}, "both certificate_file and private_key_file"),
        (BrokerOptions, {"private_key_file": "k.pem"}, "both certificate_file and private_key_file"),
        (BrokerOptions, {"trust_certs_file": "a.pem"}, "trust_certs_file is for clients that come over TLS"),
        (BrokerOptions, {"keepalive_seconds": 0}, "keepalive_seconds is above 0, not 0"),
        (BrokerOptions, {"keepalive_seconds": float("nan")}, "keepalive_seconds is above 0, not nan"),
        (Settings, {"max_message_size": 0}, "max_message_size is 1 or more, not 0"),
        (Settings, {"max_unacked_per_consumer": -1}, "max_unacked_per_consumer is 0 or more, not -1"),
        (Settings, {"max_unacked_per_subscription": -1}, "max_unacked_per_subscription is 0 or more, not -1"),
        (Settings, {"failover_delay": float("nan")}, "failover_delay is 0 or more, not nan"),
        (Settings, {"kept_bytes": -1}, "kept_bytes is 0 or more, not -1"),
    ],
)
def test_what_cannot_work_is_refused_at_once(kind: type, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        kind(**options)


def test_a_size_that_is_no_number_is_refused_before_there_is_a_broker_that_answers_nobody() -> None:
    size: Any = "5000"
    with pytest.raises(TypeError):
        Settings(max_message_size=size)


def test_0_of_what_is_not_acknowledged_is_no_limit_and_is_taken() -> None:
    Settings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)


def test_passwords_are_not_shown() -> None:
    assert "open-sesame" not in repr(BrokerOptions(passwords={"ali": "open-sesame"}))
