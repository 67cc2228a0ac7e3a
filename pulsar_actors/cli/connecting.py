"""The arguments of a command's connection to a broker, and the client made from them."""

from argparse import ArgumentParser, Namespace
from typing import Any, Final

from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client import Client

LOCAL: Final = "pulsar://localhost:6650"


def add_connection_arguments(parser: ArgumentParser, without_url: str) -> Any:  # noqa: ANN401 - of a class private to argparse
    """Declare the broker, authentication and TLS, with the names of pulsar-perf. Return the group of arguments."""
    group = parser.add_argument_group("broker")
    group.add_argument("-u", "--service-url", help=f"such as {LOCAL} (default: {without_url})")
    group.add_argument("--auth-plugin", default="", help="a method of authentication: its name, or its Java class")
    group.add_argument("--auth-params", default="", help="what that method takes")
    group.add_argument("--trust-cert-file", help="certificates to trust, in place of the system's")
    group.add_argument("--tls-allow-insecure", action="store_true", help="take any certificate")
    return group


def client_of(arguments: Namespace, service_url: str, **options: Any) -> Client:  # noqa: ANN401 - those of the client
    """Create a client."""
    plugin = arguments.auth_plugin
    return Client(
        service_url,
        authentication=Authentication(plugin, arguments.auth_params) if plugin else None,
        tls_trust_certs_file_path=arguments.trust_cert_file,
        tls_allow_insecure_connection=arguments.tls_allow_insecure,
        **options,
    )
