"""How to reach a cluster: what clients are made of, on the driver and in every worker.

It travels to workers, so it is made of what pickles. Two that say the same are equal by their `identity`, which is
worked out where they are made: a worker has one client for each. Its text gives nothing away, for Spark shows what it
comes across.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from pyspark import cloudpickle

from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.spark.named_values import CLIENT
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["Cluster", "identity_of"]


class Cluster:
    """One cluster, as one user: keyword arguments of `Client`, and the web server's address, if that is told."""

    __slots__ = ("_arguments", "admin_url", "identity")

    def __init__(self, arguments: Mapping[str, Any], admin_url: str | None = None) -> None:
        self._arguments = dict(arguments)
        self.admin_url = admin_url
        self.options()  # which are checked
        self.identity = identity_of(sorted(self._arguments.items()), admin_url)
        if admin_url is not None and not ServiceUrl.parse(admin_url).is_http:
            raise InvalidConfiguration("admin.url is the address of the brokers' web server, such as http://host:8080")

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "Cluster":
        """Make one of options of Spark's."""
        url = texts.get("service.url")
        if url is None:
            raise InvalidConfiguration("service.url is missing: give the broker's address, such as pulsar://host:6650")
        arguments = CLIENT.read(texts)
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
        """Give the options of a client of it."""
        return ClientOptions(**self._arguments)

    def client(self) -> Client:
        """Make a client of it."""
        return Client(**self._arguments)

    def __repr__(self) -> str:
        return "<Cluster>"


_CLOUDPICKLE: Any = cloudpickle


def identity_of(*parts: object) -> str:
    """Give what is the same for what is the same: a digest, which tells nothing of what it is made of."""
    return hashlib.sha256(_CLOUDPICKLE.dumps(parts)).hexdigest()
