from pulsar_actors.machines.ledgers.roster import Roster

A, B = "persistent://public/default/a", "persistent://public/default/b"


def opened(roster: Roster) -> dict[str, int]:
    """Have a member for every topic."""
    numbers = {topic: roster.ask_for(topic, source) for topic, source in roster.missing()}
    for number in numbers.values():
        roster.opened(number)
    return numbers


def test_a_topic_is_one_member_and_a_partitioned_one_has_one_for_each_partition() -> None:
    roster = Roster()
    roster.note(A, 2)
    roster.note(B, 0)
    assert roster.missing() == [(f"{A}-partition-0", A), (f"{A}-partition-1", A), (B, B)]
    assert roster.partitioned == (A,)


def test_only_partitions_that_were_added_are_missing_and_fewer_than_before_count_for_nothing() -> None:
    roster = Roster()
    roster.note(A, 2)
    opened(roster)
    roster.note(A, 1)
    assert roster.missing() == []
    roster.note(A, 3)
    assert roster.missing() == [(f"{A}-partition-2", A)]


def test_what_ended_by_itself_is_not_missing_and_what_never_was_there_still_is() -> None:
    roster = Roster()
    roster.note(A, 2)
    first, second = (roster.ask_for(*each) for each in roster.missing())
    roster.opened(first)
    roster.lost(first, again=False)
    roster.lost(second, again=False)
    assert roster.missing() == [(f"{A}-partition-1", A)]


def test_a_topic_that_went_and_came_again_is_missing() -> None:
    roster = Roster()
    roster.note(A, 0)
    (number,) = opened(roster).values()
    assert roster.drop(A) == [number]
    roster.leave_some([number])
    roster.note(A, 0)
    assert roster.missing() == []  # until the first one has gone
    roster.lost(number, again=False)
    assert roster.missing() == [(A, A)]


def test_one_that_was_told_to_close_stays_told_when_it_opens() -> None:
    roster = Roster()
    roster.note(A, 0)
    number = roster.ask_for(A, A)
    assert roster.leave() == [number]
    roster.opened(number)
    assert roster.open == {}
    assert roster.leave() == []


def test_those_that_are_being_made_are_counted_whatever_becomes_of_them() -> None:
    roster = Roster()
    roster.note(A, 3)
    one, two, three = (roster.ask_for(*each) for each in roster.missing())
    assert roster.opening == 3
    roster.opened(one)
    roster.leave_some([two])
    roster.lost(three, again=False)
    assert roster.opening == 0
    assert roster.open == {one: f"{A}-partition-0"}
    roster.lost(two, again=False)
    assert roster.has_only(one)


def test_a_topic_that_was_given_up_gets_no_other_member() -> None:
    roster = Roster()
    roster.note(A, 0)
    (number,) = opened(roster).values()
    roster.give_up(number)
    roster.lost(number, again=True)
    assert roster.missing() == []


def test_names_that_only_look_like_partitions_are_members_as_they_were_listed() -> None:
    roster = Roster()
    roster.note(A, 0, [f"{A}-partition-7"])
    assert roster.missing() == [(f"{A}-partition-7", A)]


def test_what_was_made_anew_has_only_the_partitions_that_are_counted_or_listed() -> None:
    roster = Roster()
    parts = [f"{A}-partition-{number}" for number in range(4)]
    roster.note(A, 4, parts, anew=True)
    numbers = opened(roster)
    assert not roster.note(A, 2, parts[:3], anew=True)  # a count that lags behind the listing costs nothing
    assert roster.size == 3
    assert roster.outdated(A) == [numbers[parts[3]]]
    roster.note(A, 0, [A], anew=True)
    assert roster.outdated(A) == list(numbers.values())
    assert roster.missing() == [(A, A)]


def test_a_topic_without_partitions_is_known_as_what_it_is_listed_as() -> None:
    roster = Roster()
    roster.note(A, 0, [A])
    roster.note(B, 1)
    assert roster.is_known_as(A, (A,))
    assert not roster.is_known_as(A, (f"{A}-partition-0",))
    assert not roster.is_known_as(B, (B,))
    assert not roster.is_known_as("persistent://public/default/c", ("persistent://public/default/c",))
