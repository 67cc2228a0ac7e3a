from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.trackers.pending_queries import LateQuery, PendingQueries, QueryToSend

LOST = ConnectionLost("reset")


def two() -> PendingQueries[str]:
    questions: PendingQueries[str] = PendingQueries()
    questions.add("first", 10.0)
    questions.add("second", 20.0)
    return questions


def test_each_is_asked_once() -> None:
    questions = two()
    assert questions.take_unasked() == [QueryToSend(1, "first", 10.0), QueryToSend(2, "second", 20.0)]
    assert questions.take_unasked() == []


def test_an_answer_ends_the_one_that_was_asked_under_its_number() -> None:
    questions = two()
    questions.take_unasked()
    assert questions.answered(2) == "second"
    assert questions.answered(2) is None
    assert questions.drain() == ["first"]


def test_those_that_lost_their_broker_are_asked_again_first_and_their_earlier_answers_mean_nothing() -> None:
    questions = two()
    questions.take_unasked()
    questions.add("third", 30.0)
    questions.unbind()
    assert questions.take_unasked() == [
        QueryToSend(3, "first", 10.0),
        QueryToSend(4, "second", 20.0),
        QueryToSend(5, "third", 30.0),
    ]
    assert questions.answered(1) is None
    assert questions.answered(3) == "first"


def test_one_that_is_put_off_is_asked_again_and_its_answer_from_before_means_nothing() -> None:
    questions = two()
    questions.take_unasked()
    questions.retry_later(2, LOST)
    questions.retry_later(7, LOST)
    assert questions.answered(2) is None
    assert questions.take_unasked() == [QueryToSend(3, "second", 20.0)]


def test_those_whose_time_is_up_end_whether_they_were_asked_or_not() -> None:
    questions: PendingQueries[str] = PendingQueries()
    assert questions.next_deadline() is None
    questions.add("asked", 10.0)
    questions.add("asked later", 20.0)
    questions.take_unasked()
    questions.add("never asked", 10.0)
    assert questions.next_deadline() == 10.0
    assert questions.expire(9.9) == []
    assert questions.expire(10.0) == [LateQuery("asked", None), LateQuery("never asked", None)]
    assert questions.next_deadline() == 20.0
    assert questions.answered(1) is None
    assert questions.take_unasked() == []


def test_each_remembers_what_went_wrong_last_while_it_was_open_however_often_it_is_asked_since() -> None:
    questions = two()
    questions.take_unasked()
    questions.note_failure(ConnectionLost("refused"))
    questions.unbind()
    questions.note_failure(LOST)
    questions.take_unasked()
    questions.add("third", 30.0)
    assert questions.late(3) == LateQuery("first", LOST)
    assert questions.late(3) is None
    assert questions.expire(30.0) == [LateQuery("second", LOST), LateQuery("third", None)]


def test_one_that_can_not_be_asked_at_once_or_is_put_off_remembers_why() -> None:
    questions: PendingQueries[str] = PendingQueries()
    questions.add("unbound", 10.0, LOST)
    questions.add("put off", 10.0)
    questions.take_unasked()
    forgotten = ConnectionLost("forgotten")
    questions.retry_later(2, forgotten)
    assert questions.expire(10.0) == [LateQuery("unbound", LOST), LateQuery("put off", forgotten)]


def test_draining_ends_all() -> None:
    questions = two()
    questions.take_unasked()
    questions.add("third", 30.0)
    assert questions.drain() == ["first", "second", "third"]
    assert questions.drain() == []
    assert questions.next_deadline() is None
