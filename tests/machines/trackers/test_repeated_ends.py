from pulsar_actors.machines.trackers.repeated_ends import MOST_REPEATED, RepeatedEnds


def test_there_is_room_for_so_many_and_for_those_that_have_it() -> None:
    ends = RepeatedEnds()
    for number in range(MOST_REPEATED):
        assert ends.has_room(number)
        ends.add(number)
    assert ends.has_room(0)
    assert not ends.has_room(MOST_REPEATED)
    ends.discard(0)
    assert 0 not in ends
    assert ends.has_room(MOST_REPEATED)
