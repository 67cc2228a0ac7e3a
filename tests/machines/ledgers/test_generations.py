from pulsar_actors.machines.ledgers.generations import Generation


def test_opened_messages_and_acks_outlive_a_connection() -> None:
    now = Generation().attached_to(1)
    assert Generation() != now
    assert Generation().still_delivers(now)
    assert Generation().still_acknowledges(now)


def test_a_redelivery_of_everything_voids_opened_messages_but_no_acks() -> None:
    now = Generation().redelivered_to(3)
    assert now.epoch == 3
    assert not Generation().still_delivers(now)
    assert Generation().still_acknowledges(now)


def test_a_seek_voids_both() -> None:
    now = Generation().sought()
    assert not Generation().still_delivers(now)
    assert not Generation().still_acknowledges(now)
