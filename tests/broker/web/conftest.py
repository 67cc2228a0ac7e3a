"""A web side without sockets: requests go in as values, and answers come out; the model behind it is the real one."""

import json
from typing import Any

import pytest

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.requests import ProducerRequest
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.web.calls import BrokerUrls, WebContext
from pulsar_actors.broker.web.http import Request, Response
from pulsar_actors.broker.web.server import WebServer
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import transaction_in
from tests.support.bench_loop import BenchLoop

NOTHING = object()


class Quiet:
    """The end of a producer, which does nothing about what it hears."""

    def ready(self) -> None: ...

    def refused(self, refusal: Refusal) -> None: ...

    def closed(self, moved_to: object) -> None: ...


class Web:
    """A server, and the ways to ask it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.loop = BenchLoop()
        self.cluster = Cluster(self.loop, settings)
        self.urls = {
            "here": BrokerUrls("pulsar://here:1", "pulsar+ssl://here:2", "http://here:3", "https://here:4"),
            "there": BrokerUrls("pulsar://there:1", "", "http://there:3", ""),
            "safe": BrokerUrls("", "pulsar+ssl://safe:2", "", "https://safe:4"),
        }
        self.context = WebContext(self.cluster, self.loop, "here", self.urls.__getitem__)
        self.server = WebServer(self.context, None)

    def ask(self, method: str, target: str, body: Any = NOTHING, **headers: str) -> Response:
        data = b"" if body is NOTHING else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json", **headers}
        return self.server.answer(Request(method, target, named, data))

    def told(self, method: str, target: str, body: Any = NOTHING) -> Any:
        """The value of an answer that is 200."""
        answer = self.ask(method, target, body)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def refusal(self, method: str, target: str, body: Any = NOTHING) -> tuple[int, str]:
        answer = self.ask(method, target, body)
        return answer.status, json.loads(answer.body)["reason"]

    def name(self, topic: str) -> TopicName:
        return TopicName.parse(topic)

    def connect(self, topic: str) -> Producer:
        """A producer that stays."""
        opened = self.cluster.open_topic(self.name(topic))
        return opened.add_producer(ProducerRequest(connection=self, producer_id=2), Quiet())

    def publish(self, topic: str, payload: bytes, **fields: Any) -> Position:
        """Store an entry, as a producer that comes for it alone."""
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=self.loop.wall_clock_ms(), **fields)
        data = b"".join(bytes(part) for part in encode_entry(metadata, payload))
        opened = self.cluster.open_topic(TopicName.parse(topic))
        producer = opened.add_producer(ProducerRequest(connection=self, producer_id=1), Quiet())
        ids = {"sequence_id": 0, "highest_sequence_id": 0, "transaction": transaction_in(metadata)}
        position = opened.publish(producer, data, metadata, **ids)
        opened.remove_producer(producer)
        return position


@pytest.fixture
def web() -> Web:
    return Web()
