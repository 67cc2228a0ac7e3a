"""The ledger of the requests over HTTP that are sent, and of those that wait."""

from pulsar_actors.runtime.http_turns import HttpTurns


def taken(turns: HttpTurns[str]) -> list[tuple[int, str, str]]:
    """Take every turn that there is."""
    every: list[tuple[int, str, str]] = []
    while (turn := turns.take()) is not None:
        every.append(turn)
    return every


def waiting(at_once: int, requests: int) -> HttpTurns[str]:
    turns: HttpTurns[str] = HttpTurns(at_once)
    for number in range(requests):
        turns.wait(number, f"request {number}")
    return turns


def test_each_executor_has_one_request_at_a_time_and_they_come_in_order() -> None:
    turns = waiting(2, 4)
    assert turns.executors == ("lookups-1", "lookups-2")
    assert taken(turns) == [(0, "request 0", "lookups-1"), (1, "request 1", "lookups-2")]
    turns.release("lookups-2")
    assert taken(turns) == [(2, "request 2", "lookups-2")]
    turns.release("lookups-1")
    assert taken(turns) == [(3, "request 3", "lookups-1")]


def test_one_that_is_withdrawn_has_no_turn() -> None:
    turns = waiting(1, 3)
    assert [lookup for lookup, _, _ in taken(turns)] == [0]
    turns.withdraw(1)
    turns.withdraw(0)  # it is being sent: its executor is not free
    turns.withdraw(7)
    assert taken(turns) == []
    turns.release("lookups-1")
    assert [lookup for lookup, _, _ in taken(turns)] == [2]


def test_the_executor_that_was_used_last_is_used_next() -> None:
    turns = waiting(8, 1)
    for number in range(1, 4):
        ((_, _, executor),) = taken(turns)
        assert executor == "lookups-1"
        turns.release(executor)
        turns.wait(number, "another")
