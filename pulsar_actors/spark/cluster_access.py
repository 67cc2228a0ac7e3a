"""The access of one user to a Pulsar cluster: the arguments of its clients, on the driver and in every worker.

It is pickled for the workers. Equal options give an equal identity, so a worker has one client for each identity. Its
repr has no arguments, because Spark shows reprs in plans and logs.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from pyspark import cloudpickle

from pulsar_actors.client.admin import parse_admin_url
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.spark.prefixed_options import CLIENT_OPTIONS

__all__ = ["ClusterAccess", "identity_of"]


class ClusterAccess:
    """One cluster, for one user: keyword arguments of `Client`, and the address of the web server, if it is given."""

    __slots__ = ("_arguments", "admin_url", "identity")

    def __init__(self, arguments: Mapping[str, Any], admin_url: str | None = None) -> None:
        self._arguments = dict(arguments)
        self.admin_url = admin_url
        self.options()  # for the checks
        self.identity = identity_of(sorted(self._arguments.items()), admin_url)
        if admin_url is not None:
            parse_admin_url(admin_url, "admin.url")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> "ClusterAccess":
        """Parse Spark's options."""
        url = texts.get("service.url")
        if url is None:
            raise InvalidConfiguration("service.url is missing: give the broker's address, such as pulsar://host:6650")
        arguments = CLIENT_OPTIONS.parse(texts)
        plugin, parameters = arguments.pop("auth_plugin", None), arguments.pop("auth_params", None)
        if plugin is not None:
            try:
                arguments["authentication"] = Authentication(plugin, parameters or "")
            except InvalidArgument as fault:
                options = "pulsar.client.authPluginClassName and pulsar.client.authParams"
                raise InvalidConfiguration(f"{options}: {fault}") from None
        elif parameters is not None:
            raise InvalidConfiguration("pulsar.client.authParams needs pulsar.client.authPluginClassName as well")
        return cls({"service_url": url, **arguments}, texts.get("admin.url"))

    def options(self) -> ClientOptions:
        """Return the options of a client."""
        return ClientOptions(**self._arguments)

    def client(self) -> Client:
        """Create a client."""
        return Client(**self._arguments)

    def __repr__(self) -> str:
        return "<ClusterAccess>"


_CLOUDPICKLE: Any = cloudpickle


def identity_of(*parts: object) -> str:
    """Return a digest of values: equal for equal ones, and without any part of them."""
    return hashlib.sha256(_CLOUDPICKLE.dumps(parts)).hexdigest()
