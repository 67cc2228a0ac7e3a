"""The messages that a scenario has sent in all ways there are, with their results, and the checks of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import PulsarException, SendManyFailed
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Outcome as Verdict
from tests.scenarios.scene import TOPIC, Scene, Stored

Outcome = MessageId | Exception | Result


class Sent:
    """The messages that callers have sent, by their content."""

    def __init__(self) -> None:
        self.outcomes: dict[bytes, list[Outcome]] = {}
        self.lines: dict[str, list[bytes]] = {}

    def begin(self, line: str, content: bytes) -> None:
        """Note that a message is being sent. Messages of a line are sent one after the other."""
        assert content not in self.outcomes
        self.outcomes[content] = []
        self.lines.setdefault(line, []).append(content)

    def ended(self, content: bytes, outcome: Outcome) -> None:
        """Note what became of it."""
        self.outcomes[content].append(outcome)

    def check(
        self,
        scene: Scene,
        *,
        once: bool,
        topics: Sequence[str] = (TOPIC,),
        key: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        """Hold it against what the broker has; `once` where it drops duplicates. Messages of a `key` have an order."""
        of_each = [scene.stored(topic) for topic in topics]
        stored = [message for messages in of_each for message in messages]
        times = Counter(message.content for message in stored)
        by_place = {message.place: message.content for message in stored}
        unknown = set(times) - set(self.outcomes)
        assert not unknown, f"stored, and never sent: {unknown}"
        for content, outcomes in self.outcomes.items():
            assert len(outcomes) == 1, f"{content!r} ended {len(outcomes)} times: {outcomes}"
            _check_outcome(content, outcomes[0], times[content], by_place)
        if once:
            repeated = {content for content, number in times.items() if number > 1}
            assert not repeated, f"stored more than once: {repeated}"
        for contents in self.lines.values():
            for some in {key(content) for content in contents}:
                for messages in of_each:
                    _check_order([content for content in contents if key(content) == some], messages)


def _check_outcome(content: bytes, outcome: Outcome, times: int, by_place: dict[tuple[int, int, int], bytes]) -> None:
    if isinstance(outcome, MessageId):
        assert times >= 1, f"{content!r} was acknowledged as {outcome}, and is not stored"
        place = (outcome.ledger_id(), outcome.entry_id(), outcome.batch_index())
        assert place[:2] == (-1, -1) or by_place.get(place) == content, f"{content!r} is not at {place}"
    elif outcome is Result.Ok:
        assert times >= 1, f"{content!r} was acknowledged, and is not stored"
    elif isinstance(outcome, Result):
        assert Verdict.of_result(outcome) is Verdict.UNKNOWN or not times, (
            f"{content!r} failed with {outcome}, and is stored"
        )
    elif Verdict.of_error(outcome) is Verdict.REFUSED:
        assert not times, f"{content!r} failed with {outcome!r}, which says that it was not sent, and is stored"


def _check_order(contents: list[bytes], stored: list[Stored]) -> None:
    """See that messages were stored for the first time in the order in which they were sent."""
    numbers = {content: number for number, content in enumerate(contents)}
    seen: set[bytes] = set()
    last = -1
    for message in stored:
        number = numbers.get(message.content)
        if number is None or message.content in seen:
            continue
        seen.add(message.content)
        assert number > last, f"{message.content!r} overtook {contents[last]!r}"
        last = number


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

        try:
            producer.send_async(content, told)
        except PulsarException as error:
            self.sent.ended(content, error)

    def send_many(self, producer: Any) -> None:
        contents = [self.content() for _ in range(1 + self.dice.below(6))]

        def ended(done: Any) -> None:
            error = done.exception()
            if isinstance(error, SendManyFailed):
                outcomes = [error.errors.get(at) or (error.ids or [])[at] for at in range(len(contents))]
            else:
                outcomes = done.result()
            for content, outcome in zip(contents, outcomes, strict=True):
                self.sent.ended(content, outcome)

        try:
            producer.send_many(contents, ids=True).add_done_callback(ended)
        except PulsarException as error:
            for content in contents:
                self.sent.ended(content, error)

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
            ways = (self.send, self.send_for_a_future, self.send_for_a_future, self.send_for_a_callback, self.send_many)
            ways[dice.below(len(ways))](producer)


def a_producer(scene: Scene, client: Client, dice: Dice, topic: str = TOPIC, **options: Any) -> Any:
    """Make a producer of a random kind."""
    return scene.insist(
        lambda: client.create_producer(
            topic,
            send_timeout_millis=(3000, 30_000)[dice.below(2)],
            max_pending_messages=(2, 10, 1000)[dice.below(3)],
            block_if_queue_full=dice.happens(0.7),
            batching_enabled=dice.happens(0.5),
            batching_max_messages=1 + dice.below(8),
            **options,
        )
    )
