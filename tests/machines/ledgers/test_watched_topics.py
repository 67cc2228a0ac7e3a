from pulsar_actors.machines.ledgers.watched_topics import Difference, WatchedTopics


def test_the_first_list_is_all_new() -> None:
    assert WatchedTopics().listed(["b", "a"], "1") == Difference(("a", "b"), ())


def test_a_later_list_is_told_apart_from_the_one_before() -> None:
    topics = WatchedTopics()
    topics.listed(["a", "b"], "1")
    assert topics.listed(["b", "c"], "2") == Difference(("c",), ("a",))


def test_an_empty_list_with_the_hash_of_the_last_one_changes_nothing() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.listed([], "1") == Difference((), ())
    assert topics.changed(["b"], [], "2") == Difference(("b",), ())


def test_an_empty_list_with_another_hash_means_that_all_have_gone() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.listed([], "2") == Difference((), ("a",))


def test_what_was_known_is_not_told_again() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.changed(["a", "b"], ["z"], "2") == Difference(("b",), ())
    assert topics.hash == "2"
