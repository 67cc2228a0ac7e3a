"""A request that has found its handler, and the world in which it is answered.

The `Site` is what all requests share: the model, the clock, the addresses that lookups give out. A `Call` is one
request with the parts of its path and its query already decoded; it has the few questions that many handlers ask
first, each with the refusal that Pulsar gives.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.refusal import Missing
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["BrokerUrls", "Call", "Site"]

_TRUE = {"true", "1"}
_NUMBER = re.compile("-?[0-9]{1,18}")  # all of these are below 2^63


class BrokerUrls(NamedTuple):
    """Where one broker is reached; what it does not offer is empty. `advertised` has the addresses of its listeners."""

    service_url: str = ""
    service_url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""
    advertised: Mapping[str, Address] = MappingProxyType({})


@dataclass(slots=True)
class Site:
    """What all requests share."""

    cluster: Cluster
    loop: Loop
    name: str
    """Of the broker that is asked, as `Cluster.owner_of` names brokers."""
    urls_of: Callable[[str], BrokerUrls]
    encrypted: bool = False
    """Whether requests come over TLS."""

    @property
    def urls(self) -> BrokerUrls:
        """Where the broker that is asked is reached."""
        return self.urls_of(self.name)

    @property
    def broker_id(self) -> str:
        """What Pulsar calls the broker: where its web server listens."""
        urls = self.urls
        return (urls.web_url or urls.web_url_tls).partition("://")[2]


@dataclass(slots=True)
class Call:
    """One request on its way through a handler."""

    site: Site
    parts: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    target: str

    @property
    def cluster(self) -> Cluster:
        """The model."""
        return self.site.cluster

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Read a flag of the query."""
        text = self.query.get(name)
        return default if text is None else text.lower() in _TRUE

    def number(self, name: str) -> int:
        """Read a number in the path; a path with anything else there is none of Pulsar's."""
        text = self.parts[name]
        if _NUMBER.fullmatch(text) is None:
            raise HttpRefusal(404, f"{name} is a whole number in this path, not {excerpt(text)}")
        return int(text)

    def value(self) -> Any:  # noqa: ANN401 - whatever JSON can say
        """Read the body as JSON; an empty one is None, as it is to Pulsar."""
        if not self.body.strip():
            return None
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise HttpRefusal(415, f"the body is to come with 'Content-Type: application/json', not {excerpt(kind)}")
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as fault:
            raise HttpRefusal(400, f"the body is not JSON: {fault}") from fault

    def topic_name(self) -> TopicName:
        """Read the topic of the path."""
        parts = self.parts
        owners = [parts["tenant"], *([parts["cluster"]] if "cluster" in parts else []), parts["namespace"]]
        try:
            name = TopicName.parse(f"{parts['domain']}://{'/'.join(owners)}/{parts['topic']}")
        except InvalidTopicName as fault:
            raise HttpRefusal(412, f"Topic name is not valid: {fault}") from fault
        if name != (parts["domain"], parts["tenant"], parts.get("cluster"), parts["namespace"], parts["topic"]):
            raise HttpRefusal(412, "Topic name is not valid: a slash in one of its parts makes it another name")
        return name

    def namespace(self) -> Namespace:
        """Find the namespace of the path."""
        try:
            return self.cluster.namespace(f"{self.parts['tenant']}/{self.parts['namespace']}")
        except Missing as fault:
            raise HttpRefusal(404, "Namespace does not exist") from fault

    def topic(self) -> Topic:
        """Find the topic of the path, which is no partitioned one."""
        name = self.topic_name()
        topic = self.cluster.find_topic(name)
        if topic is None:
            raise HttpRefusal(404, f"Topic {name} not found")
        return topic

    def partition_count(self) -> int:
        """Tell how many partitions the topic of the path has; 0 means that it is not partitioned, if it is at all."""
        name = self.topic_name()
        namespace = self.cluster.namespaces.get(name.namespace_name)
        return namespace.partitioned.get(str(name), 0) if namespace else 0

    def topics(self) -> list[Topic]:
        """Find the topic of the path, or the partitions that it has."""
        name = self.topic_name()
        count = self.partition_count()
        if not count:
            return [self.topic()]
        return [self.cluster.open_topic(name.partition(index)) for index in range(count)]
