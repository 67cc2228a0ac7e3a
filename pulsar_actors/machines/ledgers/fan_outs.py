"""Calls to all members of a topic set at once, each of which ends once: when the last member has answered.

If all did it, so has the set. If some did not, the call fails with the error of the first of them, which then names
every topic that failed and says how many did it: who reads that knows what there is left to do.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, PulsarException, WireError


class Outcome(NamedTuple):
    """How a call has ended: with the answers by topic, or with an error."""

    token: object
    answers: dict[str, Any]
    error: PulsarException | None


class _Call(NamedTuple):
    token: object
    waiting: dict[int, str]
    answers: dict[str, Any]
    errors: dict[str, PulsarException]


class FanOuts:
    """The open calls of one set."""

    __slots__ = ("_calls", "_number")

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._number = 0

    def begin(self, token: object, members: Mapping[int, str]) -> int:
        """Take on a call to these members, given with their topics; the number is for their answers."""
        self._number += 1
        self._calls[self._number] = _Call(token, dict(members), {}, {})
        return self._number

    def ends_with(self, call: int, member: int) -> bool:
        """Tell whether this member's answer is the last that is waited for."""
        found = self._calls.get(call)
        return found is not None and member in found.waiting and len(found.waiting) == 1

    def has_failed(self, call: int) -> bool:
        """Tell whether a member has failed so far."""
        return bool(self._calls[call].errors)

    def answered(self, call: int, member: int, answer: object) -> Outcome | None:
        """Note an answer, or an error; give the outcome if it was the last."""
        found = self._calls.get(call)
        if found is None or member not in found.waiting:
            return None
        topic = found.waiting.pop(member)
        if isinstance(answer, PulsarException):
            found.errors[topic] = answer
        else:
            found.answers[topic] = answer
        if found.waiting:
            return None
        del self._calls[call]
        return Outcome(found.token, found.answers, _error_of(found))

    def drain(self) -> list[object]:
        """End all, and give their tokens."""
        tokens = [call.token for call in self._calls.values()]
        self._calls = {}
        return tokens


def naming(error: PulsarException, text: str) -> PulsarException:
    """Give the same error with other words, the cause of which it is; errors about bytes keep their own."""
    if isinstance(error, WireError):
        return error
    again = type(error)(error.code, text) if isinstance(error, BrokerRefusal) else type(error)(text)
    again.__cause__ = error
    return again


def about(topic: str, error: PulsarException) -> PulsarException:
    """Give the same error so that it names a topic."""
    words = error.reason if isinstance(error, BrokerRefusal) else str(error)
    return error if topic in words else naming(error, f"{topic}: {words}")


def _error_of(call: _Call) -> PulsarException | None:
    if not call.errors:
        return None
    first = next(iter(call.errors.values()))
    each = "; ".join(f"{topic}: {error}" for topic, error in call.errors.items())
    return naming(first, f"it failed for {len(call.errors)} and was done for {len(call.answers)} topics: {each}")
