"""Messages that are put off, negatively acknowledged or dropped by turns end acknowledged or as dead letters."""

from concurrent.futures import Future

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import SUBSCRIPTION, TOPIC, Scene, play

RETRY, DEAD = f"{TOPIC}-{SUBSCRIPTION}-RETRY", f"{TOPIC}-{SUBSCRIPTION}-DLQ"


class Procrastinator:
    """Receives, and puts off most of it, until nothing is left on either topic."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self._scene = scene
        self._client = client
        self._publisher = publisher
        self._dice = Dice(scene.world.seed, "procrastinator")
        self._consumer: Consumer = self._subscribe()
        self._on_their_way: list[tuple[Message, Future[None]]] = []
        self._given_up: list[Future[None]] = []  # with a consumer that was closed
        self.acknowledged: set[bytes] = set()

    def run(self) -> None:
        while not self._is_drained():
            try:
                self._treat(self._consumer.receive(300))
            except Timeout:
                self._refuse_what_failed()
            if not self._scene.is_calm and self._dice.happens(0.05):
                self._start_anew()
        self._consumer.close()
        assert all(put_off.done() for put_off in self._given_up), "a call without an end"

    def _treat(self, message: Message) -> None:
        if self._dice.happens(0.4):
            self._put_off(message, (0, 20, 700)[self._dice.below(3)])
        elif self._dice.happens(0.2):
            self._consumer.negative_acknowledge(message)
        else:
            self.acknowledged.add(message.data())
            self._consumer.acknowledge(message)

    def _put_off(self, message: Message, delay_ms: int) -> None:
        self._scene.perhaps_cut_soon()
        if self._dice.happens(0.5):
            self._on_their_way.append((message, self._consumer.reconsume_later_async(message, delay_ms)))
            return
        try:
            self._consumer.reconsume_later(message, delay_ms)
        except PulsarException as error:
            self._scene.world.note(f"not put off: {error!r}")
            self._consumer.negative_acknowledge(message)

    def _refuse_what_failed(self) -> None:
        ended = [each for each in self._on_their_way if each[1].done()]
        self._on_their_way = [each for each in self._on_their_way if not each[1].done()]
        for message, put_off in ended:
            if put_off.exception() is not None:
                self._consumer.negative_acknowledge(message)

    def _start_anew(self) -> None:
        """Close with messages on their way: they arrive, or come again."""
        self._consumer.close()
        self._given_up += [put_off for _, put_off in self._on_their_way]
        self._on_their_way.clear()
        self._consumer = self._subscribe()

    def _subscribe(self) -> Consumer:
        return subscribe(
            self._scene,
            self._client,
            consumer_type=ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=200,
            ack_receipt_enabled=self._dice.happens(0.2),
            dead_letter_policy=ConsumerDeadLetterPolicy(2),
            enable_retry=True,
        )

    def _is_drained(self) -> bool:
        backlogs = [self._backlog(topic) for topic in (TOPIC, RETRY)]
        return self._publisher.caller.ended and self._scene.is_calm and not any(backlogs) and not self._on_their_way

    def _backlog(self, name: str) -> int:
        topic = self._scene.topic(name)
        assert topic is not None
        return topic.subscriptions[SUBSCRIPTION].backlog()


def procrastinating(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client, most=20)

    def program() -> None:
        one = Procrastinator(scene, client, publisher)
        one.run()
        published = {message.content for message in scene.stored()}
        dead = {message.content for message in scene.stored(DEAD)}
        assert one.acknowledged | dead == published, f"lost: {published - one.acknowledged - dead}"

    in_troubles(scene, program, publisher, sets_clocks=False)


def test_nothing_that_was_put_off_is_lost() -> None:
    play(25, procrastinating, deduplication=True)
