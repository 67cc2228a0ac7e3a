from pulsar_actors.machines.trackers.coordinator_requests import CoordinatorRequests
from pulsar_actors.wire.PulsarApi_pb2 import CommandNewTxn

ASK = CommandNewTxn(request_id=0)


def numbers(requests: CoordinatorRequests, now: float = 0.0) -> list[int]:
    return [request.number for request in requests.take_unsent(now)]


def test_requests_are_sent_once_in_the_order_of_their_calls_with_the_time_that_is_left() -> None:
    requests = CoordinatorRequests()
    requests.add("a", ASK, 30.0)
    requests.add("b", ASK, 10.0)
    assert [(one.number, one.timeout) for one in requests.take_unsent(9.0)] == [(0, 21.0), (1, 1.0)]
    assert numbers(requests) == []


def test_after_a_lost_connection_all_that_has_no_outcome_is_sent_again() -> None:
    requests = CoordinatorRequests()
    for token in "abc":
        requests.add(token, ASK, 30.0)
    numbers(requests)
    requests.end(1)
    requests.unsend_all()
    assert numbers(requests) == [0, 2]
    ended = requests.end(2)
    assert ended is not None
    assert (ended.token, ended.sends) == ("c", 2)


def test_a_request_that_was_put_back_is_sent_again_and_counted() -> None:
    requests = CoordinatorRequests()
    requests.add("a", ASK, 30.0)
    numbers(requests)
    requests.put_back(0)
    assert numbers(requests) == [0]
    found = requests.find(0)
    assert found is not None
    assert found.refusals == 1


def test_requests_expire_by_their_own_deadlines() -> None:
    requests = CoordinatorRequests()
    requests.add("late", ASK, 20.0)
    requests.add("later", ASK, 30.0)
    assert requests.next_deadline() == 20.0
    assert [one.token for one in requests.expire(20.0)] == ["late"]
    assert (requests.next_deadline(), len(requests)) == (30.0, 1)
    assert [one.token for one in requests.drain()] == ["later"]
    assert (requests.next_deadline(), requests.find(1), requests.end(1)) == (None, None, None)
