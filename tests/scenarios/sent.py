"""The messages that a scenario has sent, with their results, and the checks of them."""

from collections import Counter
from collections.abc import Callable, Sequence

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InternalError, OutcomeUnknown
from tests.scenarios.scene import TOPIC, Scene, Stored

OPEN_RESULTS = (Result.Timeout, Result.ReadError, Result.UnknownError)
"""Results of errors that leave open whether a message was stored; `UnknownError` is what OutcomeUnknown goes by."""

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
        assert outcome in OPEN_RESULTS or not times, f"{content!r} failed with {outcome}, and is stored"
    elif not isinstance(outcome, (OutcomeUnknown, InternalError)):
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
