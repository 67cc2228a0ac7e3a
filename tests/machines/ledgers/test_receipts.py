from pulsar_actors.machines.ledgers.receipts import Receipts


def test_each_is_told_once() -> None:
    receipts = Receipts(5.0)
    receipts.awaited(("a", "b"), 1.0)
    assert receipts.ended(("a", "a", "x")) == ("a",)
    assert receipts.ended(("a",)) == ()
    assert receipts.expire(100.0) == ("b",)
    assert receipts.ended(("b",)) == ()


def test_who_has_waited_longest_is_late_first() -> None:
    receipts = Receipts(5.0)
    assert receipts.next_deadline() is None
    receipts.awaited(("a",), 1.0)
    receipts.awaited(("b",), 2.0)
    assert receipts.next_deadline() == 6.0
    assert receipts.expire(5.9) == ()
    assert receipts.expire(6.0) == ("a",)
    assert receipts.next_deadline() == 7.0
