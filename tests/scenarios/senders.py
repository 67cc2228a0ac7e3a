"""A caller that sends in every way, and notes each result."""

from typing import Any

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import Scene
from tests.scenarios.sent import Sent


class Sender:
    """A caller that sends in all the ways there are."""

    def __init__(self, scene: Scene, sent: Sent, name: str) -> None:
        self.scene = scene
        self.sent = sent
        self.name = name
        self.dice = Dice(scene.world.seed, f"sender {name}")
        self.count = 0
        self.producer_number = 0

    def content(self) -> bytes:
        self.count += 1
        content = f"{self.name}-{self.count}".encode()
        self.sent.begin(f"{self.name} of {self.producer_number}", content)
        return content

    def send(self, producer: Any) -> None:
        content = self.content()
        try:
            self.sent.ended(content, producer.send(content))
        except PulsarException as error:
            self.sent.ended(content, error)

    def send_for_a_future(self, producer: Any) -> None:
        content = self.content()
        try:
            future = producer.send_async(content)
        except PulsarException as error:
            self.sent.ended(content, error)
            return
        future.add_done_callback(lambda done: self.sent.ended(content, done.exception() or done.result()))

    def send_for_a_callback(self, producer: Any) -> None:
        content = self.content()

        def told(result: Result, message_id: MessageId) -> None:
            self.sent.ended(content, message_id if result is Result.Ok else result)

        producer.send_async(content, told)

    def flush(self, producer: Any) -> None:
        before = list(self.sent.lines.get(f"{self.name} of {self.producer_number}", []))
        try:
            producer.flush()
        except PulsarException:
            return
        left = [content for content in before if not self.sent.outcomes[content]]
        assert not left, f"flush() returned while {left} were on their way"

    def do(self, producer: Any) -> None:
        dice = self.dice
        if dice.happens(0.08):
            self.flush(producer)
        elif dice.happens(0.1):
            self.scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        else:
            (self.send, self.send_for_a_future, self.send_for_a_future, self.send_for_a_callback)[dice.below(4)](
                producer
            )
