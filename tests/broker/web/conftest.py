"""A web side without sockets: requests go in as values, and answers come out; the model behind it is the real one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.requests import ProducerRequest, SubscribeRequest
from pulsar_actors.broker.web.calls import BrokerUrls, Site
from pulsar_actors.broker.web.requests import Request
from pulsar_actors.broker.web.responses import Response
from pulsar_actors.broker.web.server import CheckToken, WebServer
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, MessageMetadata
from pulsar_actors.wire.topic_name import TopicName

NOTHING = object()


class HandLoop:
    """As much of a loop as the web side and the model use, moved by hand."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.timers: list[tuple[float, Callable[[Any], object], Any]] = []

    def now(self) -> float:
        return self.time

    def wall_clock_ms(self) -> int:
        return 1_700_000_000_000 + int(self.time * 1000)

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        self.timers.append((self.time + delay, function, argument))

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        self.later(0.0, function, argument)

    def pass_time(self, seconds: float) -> None:
        end = self.time + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda each: each[0])
            self.timers.remove(timer)
            self.time = timer[0]
            timer[1](timer[2])
        self.time = end


class Quiet:
    """The end of a producer or a consumer, which does nothing about what it hears."""

    def ready(self) -> None: ...

    def refused(self, refusal: Refusal) -> None: ...

    def closed(self, moved_to: object) -> None: ...

    def active(self, is_active: bool) -> None: ...  # noqa: FBT001 -- as the model calls it

    def reached_end(self) -> None: ...

    def deliver(self, deliveries: object, consumer_epoch: int) -> None: ...

    def has_room(self) -> bool:
        return True


class Web:
    """A server, and the ways to ask it."""

    def __init__(self, check_token: CheckToken | None = None) -> None:
        self.loop = HandLoop()
        self.cluster = Cluster(self.loop)
        self.urls = {
            "here": BrokerUrls("pulsar://here:1", "pulsar+ssl://here:2", "http://here:3", "https://here:4"),
            "there": BrokerUrls("pulsar://there:1", "", "http://there:3", ""),
            "safe": BrokerUrls("", "pulsar+ssl://safe:2", "", "https://safe:4"),
        }
        loop: Any = self.loop
        self.site = Site(self.cluster, loop, "here", self.urls.__getitem__)
        self.server = WebServer(self.site, check_token)

    def ask(self, method: str, target: str, body: Any = NOTHING, **headers: str) -> Response:
        data = b"" if body is NOTHING else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json", **headers}
        return self.server.answer(Request(method, target, named, data, keeps_alive=True))

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

    def attach(self, topic: str, subscription: str) -> Consumer:
        """A consumer that wants nothing yet."""
        request = SubscribeRequest(self, 3, subscription, CommandSubscribe.Shared)
        return self.cluster.open_topic(self.name(topic)).subscribe(request, Quiet())

    def publish(self, topic: str, payload: bytes, **fields: Any) -> Position:
        """Store an entry, as a producer that comes for it alone."""
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=self.loop.wall_clock_ms(), **fields)
        data = b"".join(bytes(part) for part in encode_entry(metadata, payload))
        opened = self.cluster.open_topic(TopicName.parse(topic))
        producer = opened.add_producer(ProducerRequest(connection=self, producer_id=1), Quiet())
        position = producer.publish(data, metadata, sequence_id=0, highest_sequence_id=0)
        producer.close()
        return position


@pytest.fixture
def make_web() -> Callable[..., Web]:
    return Web


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def hand_loop() -> HandLoop:
    return HandLoop()
