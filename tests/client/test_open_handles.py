"""The weak collections in which a client keeps its handles."""

from pulsar_actors.client.open_handles import WeakCollection


class Thing:
    """Something that can be referred to weakly."""


def test_things_keep_their_order_and_go_when_nobody_has_them() -> None:
    things = [Thing() for _ in range(100)]
    collection: WeakCollection[Thing] = WeakCollection()
    for thing in things:
        collection.add(thing)
    assert list(collection) == things
    collection.discard(things[1])
    collection.discard(things[1])
    del things[:2], thing
    assert list(collection) == things
    del things[5]
    assert list(collection) == things


def test_a_thing_is_in_it_once() -> None:
    thing = Thing()
    collection: WeakCollection[Thing] = WeakCollection()
    collection.add(thing)
    collection.add(thing)
    assert list(collection) == [thing]
