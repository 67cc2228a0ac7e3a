from typing import Any

import pytest

TOPIC = "/admin/v2/persistent/public/default/t"
PARTITIONED = "/admin/v2/persistent/public/default/p"


def first_of(web: Any, subscription: str) -> bytes | None:
    """The first message that it has not acknowledged."""
    answer = web.ask("GET", f"{TOPIC}/subscription/{subscription}/position/1")
    return answer.body if answer.status == 200 else None


@pytest.fixture
def ids(web: Any) -> list[dict[str, int]]:
    """Four messages and a subscription to all of them."""
    web.ask("PUT", f"{TOPIC}/subscription/s")
    positions = [web.publish("t", b"%d" % number) for number in range(4)]
    return [{"ledgerId": position.ledger_id, "entryId": position.entry_id} for position in positions]


@pytest.mark.parametrize(("body", "first"), [(None, None), ("latest", None), ("earliest", b"0")])
def test_a_subscription_begins_at_either_end(web: Any, ids: object, body: object, first: bytes | None) -> None:
    assert web.ask("PUT", f"{TOPIC}/subscription/new", body).status == 204
    assert first_of(web, "new") == first


def test_a_subscription_begins_at_a_message_or_after_it(web: Any, ids: list[dict[str, int]]) -> None:
    web.ask("PUT", f"{TOPIC}/subscription/at", {**ids[2], "properties": {"a": "b"}})
    web.ask("PUT", f"{TOPIC}/subscription/after", {**ids[2], "excluded": True})
    assert (first_of(web, "at"), first_of(web, "after")) == (b"2", b"3")
    assert web.cluster.find_topic(web.name("t")).subscriptions["at"].properties == {"a": "b"}


@pytest.mark.parametrize(
    "body",
    [
        *("middle", 3, [], {}, {"ledgerId": 1}),
        *({"ledgerId": ledger, "entryId": 1} for ledger in ("1", True, -2, 2**63)),
        {"ledgerId": 1, "entryId": 1.0},
        {"ledgerId": 1, "entryId": 0, "properties": {"a": 1}},
    ],
)
def test_a_subscription_does_not_begin_where_no_message_can_be(web: Any, ids: object, body: object) -> None:
    assert web.refusal("PUT", f"{TOPIC}/subscription/new", body)[0] == 400
    assert web.told("GET", f"{TOPIC}/subscriptions") == ["s"]


def test_messages_are_skipped(web: Any, ids: object) -> None:
    web.ask("POST", f"{TOPIC}/subscription/s/skip/3")
    assert first_of(web, "s") == b"3"
    web.ask("POST", f"{TOPIC}/subscription/s/skip_all")
    assert first_of(web, "s") is None


def test_a_subscription_is_moved_to_a_message_to_the_start_and_to_a_time(web: Any, ids: list[dict[str, int]]) -> None:
    assert web.ask("POST", f"{TOPIC}/subscription/s/resetcursor", ids[2]).status == 204
    assert first_of(web, "s") == b"2"
    web.ask("POST", f"{TOPIC}/subscription/s/resetcursor", {"ledgerId": -1, "entryId": -1, "excluded": True})
    assert first_of(web, "s") == b"0"
    web.ask("POST", f"{TOPIC}/subscription/s/resetcursor/4000000000000")
    assert first_of(web, "s") is None
    web.ask("POST", f"{TOPIC}/subscription/s/resetcursor/0")
    assert first_of(web, "s") == b"0"


@pytest.mark.parametrize("path", ["subscription/s/expireMessages", "all_subscription/expireMessages"])
def test_messages_expire_by_their_age(web: Any, ids: object, path: str) -> None:
    web.loop.pass_time(100)
    web.publish("t", b"new")
    web.ask("POST", f"{TOPIC}/{path}/50")
    assert first_of(web, "s") == b"new"


@pytest.mark.parametrize("number", ["x", "1.5", "", "9" * 19, "9" * 5000, "\u0663", "--1"])
def test_a_path_with_no_number_where_one_belongs_is_nobodys(web: Any, ids: object, number: str) -> None:
    assert web.ask("POST", f"{TOPIC}/subscription/s/skip/{number}").status == 404
    assert first_of(web, "s") == b"0"


def test_to_skip_fewer_than_none_skips_none(web: Any, ids: object) -> None:
    assert web.ask("POST", f"{TOPIC}/subscription/s/skip/-3").status == 204
    assert first_of(web, "s") == b"0"


def test_a_subscription_of_a_partitioned_topic_is_that_of_each_partition(web: Any) -> None:
    web.ask("PUT", f"{PARTITIONED}/partitions", 2)
    assert web.ask("PUT", f"{PARTITIONED}-partition-0/subscription/s").status == 204
    assert web.ask("PUT", f"{PARTITIONED}/subscription/s").status == 204
    assert web.refusal("PUT", f"{PARTITIONED}/subscription/s")[0] == 409
    assert web.told("GET", f"{PARTITIONED}/subscriptions") == ["s"]
    assert web.told("GET", f"{PARTITIONED}-partition-1/subscriptions") == ["s"]
    assert web.refusal("POST", f"{PARTITIONED}/subscription/s/resetcursor", {"ledgerId": 1, "entryId": 1})[0] == 405
    assert web.ask("DELETE", f"{PARTITIONED}-partition-1/subscription/s").status == 204
    assert web.ask("DELETE", f"{PARTITIONED}/subscription/s").status == 204
    assert web.told("GET", f"{PARTITIONED}/subscriptions") == []


def test_a_subscription_with_a_consumer_is_only_deleted_by_force(web: Any, ids: object) -> None:
    web.attach("t", "s")
    assert web.refusal("DELETE", f"{TOPIC}/subscription/s")[0] == 412
    assert web.ask("DELETE", f"{TOPIC}/subscription/s?force=true").status == 204
    assert web.told("GET", f"{TOPIC}/subscriptions") == []


@pytest.mark.parametrize("what", ["skip/1", "skip_all", "expireMessages/1"])
def test_nothing_that_was_kept_is_skipped_where_nothing_is_kept(web: Any, what: str) -> None:
    topic = TOPIC.replace("/persistent", "/non-persistent")
    web.ask("PUT", topic)
    assert web.refusal("POST", f"{topic}/subscription/s/{what}")[0] == 405
    assert web.refusal("POST", f"{topic}/all_subscription/expireMessages/1")[0] == 405
