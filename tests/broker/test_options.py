from typing import Any

import pytest

from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.exceptions import InvalidArgument


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"host": ""}, "host is the address to listen on, such as 127.0.0.1, not ''"),
        ({"port": -1}, "port is a port from 0"),
        ({"web_port": 65_536}, "web_port is a port from 0"),
        ({"tls_port": 70_000}, "tls_port is a port from 0"),
        ({"web_tls_port": 70_000}, "web_tls_port is a port from 0"),
        ({"certificate_file": "c.pem"}, "both certificate_file and private_key_file"),
        ({"private_key_file": "k.pem"}, "both certificate_file and private_key_file"),
        ({"trust_certs_file": "a.pem"}, "trust_certs_file is for clients that come over TLS"),
        ({"keepalive_seconds": 0}, "keepalive_seconds is above 0, not 0"),
        ({"keepalive_seconds": float("nan")}, "keepalive_seconds is above 0, not nan"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        BrokerOptions(**options)


def test_passwords_are_not_shown() -> None:
    assert "open-sesame" not in repr(BrokerOptions(passwords={"ali": "open-sesame"}))


def test_a_broker_listens_on_free_ports_of_the_loopback_address_unless_told_otherwise() -> None:
    options = BrokerOptions()
    assert (options.host, options.port, options.web_port) == ("127.0.0.1", 0, 0)
