import pytest

from pulsar_actors.exceptions import ConnectError, ProducerBusy, PulsarException, Timeout
from pulsar_actors.machines.ledgers.fan_outs import FanOuts, about

MEMBERS = {1: "a", 2: "b"}


def test_a_call_ends_with_the_last_answer_and_has_them_all_by_topic() -> None:
    calls = FanOuts()
    call = calls.begin("token", MEMBERS)
    assert calls.answered(call, 2, "two") is None
    assert calls.ends_with(call, 1)
    assert calls.answered(call, 1, "one") == ("token", {"a": "one", "b": "two"}, None)
    assert calls.answered(call, 1, "again") is None


def test_a_call_that_failed_somewhere_names_the_topics_and_says_how_many_have_done_it() -> None:
    calls = FanOuts()
    call = calls.begin("token", {**MEMBERS, 3: "c"})
    calls.answered(call, 1, ConnectError("down"))
    assert calls.has_failed(call)
    calls.answered(call, 2, None)
    outcome = calls.answered(call, 3, Timeout("late"))
    assert outcome is not None
    assert type(outcome.error) is ConnectError
    assert str(outcome.error) == "it failed for 2 and was done for 1 topics: a: down; c: late"


def test_calls_that_are_drained_hear_no_more_answers() -> None:
    calls = FanOuts()
    call = calls.begin("token", MEMBERS)
    assert calls.drain() == ["token"]
    assert calls.answered(call, 1, None) is None
    assert calls.drain() == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectError("down"), "t: down"),
        (ConnectError("t is down"), "t is down"),
        (ProducerBusy("ProducerBusy", "no"), "ProducerBusy: t: no"),
    ],
    ids=repr,
)
def test_an_error_keeps_its_kind_and_names_the_topic(error: PulsarException, text: str) -> None:
    named = about("t", error)
    assert type(named) is type(error)
    assert str(named) == text
