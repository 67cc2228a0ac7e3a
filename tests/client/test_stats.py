import pickle
from dataclasses import FrozenInstanceError

import pytest

from pulsar_actors.client.rates import RateMeter, Rates
from pulsar_actors.client.stats import ClientStats, ConsumerStats, ProducerStats


def producer(pending: int = 0, rates: Rates = Rates(), reconnects: int = 0) -> ProducerStats:  # noqa: B008 - a tuple
    return ProducerStats(
        topic="t",
        producer_name="p",
        connected=True,
        pending=pending,
        in_flight=0,
        pending_bytes=0,
        sent=0,
        sent_bytes=0,
        failed=0,
        rates=rates,
        reconnects=reconnects,
        last_error=None,
    )


def consumer(queued: int = 0, rates: Rates = Rates(), reconnects: int = 0) -> ConsumerStats:  # noqa: B008 - the same
    return ConsumerStats(
        topic="t",
        subscription_name="s",
        consumer_name="c",
        connected=True,
        queued=queued,
        permits=0,
        received=0,
        received_bytes=0,
        acknowledged=0,
        refused=0,
        undecryptable=0,
        rates=rates,
        reconnects=reconnects,
        last_error="a connection was lost",
    )


def test_the_first_rate_is_over_all_the_time_since_the_beginning() -> None:
    assert RateMeter(100.0).rates(50, 5000, 110.0) == Rates(5.0, 500.0)


def test_nothing_can_be_said_of_no_time_at_all() -> None:
    assert RateMeter(100.0).rates(50, 5000, 100.0) == Rates(0.0, 0.0)


def test_a_later_rate_is_over_the_time_since_an_earlier_asking() -> None:
    meter = RateMeter(0.0)
    meter.rates(1000, 0, 10.0)
    assert meter.rates(1000, 0, 20.0) == Rates(0.0, 0.0)
    assert meter.rates(1030, 300, 30.0) == Rates(3.0, 30.0)


def test_two_askers_in_quick_succession_get_much_the_same_answer() -> None:
    meter = RateMeter(0.0)
    meter.rates(1000, 0, 10.0)
    first = meter.rates(2000, 0, 20.0)
    again = meter.rates(2000, 0, 20.001)
    assert first.messages == 100.0
    assert abs(again.messages - first.messages) < 1


def test_a_rate_is_over_a_second_at_least_however_often_somebody_asks() -> None:
    meter = RateMeter(0.0)
    asked = [meter.rates(tick, 0, tick / 100) for tick in range(1, 1000)]
    assert all(rates.messages == pytest.approx(100.0) for rates in asked)
    burst = meter.rates(1999, 0, 9.99)
    assert burst.messages <= 100 + 1000 / 1.0


def test_a_client_adds_up_what_it_has_open() -> None:
    stats = ClientStats(
        connections=1,
        pending_lookups=0,
        pending_bytes=0,
        producers=(producer(2, Rates(1.0, 10.0), 1), producer(3, Rates(2.0, 20.0))),
        consumers=(consumer(7, Rates(5.0, 50.0), 4),),
    )
    assert (stats.pending, stats.queued, stats.reconnects) == (5, 7, 5)
    assert (stats.sent_rates, stats.received_rates) == (Rates(3.0, 30.0), Rates(5.0, 50.0))


def test_a_client_with_nothing_open_adds_up_to_nothing() -> None:
    stats = ClientStats(connections=0, pending_lookups=0, pending_bytes=0, producers=(), consumers=())
    assert (stats.pending, stats.queued, stats.reconnects) == (0, 0, 0)
    assert stats.sent_rates == stats.received_rates == Rates(0.0, 0.0)


@pytest.mark.parametrize("snapshot", [producer(), consumer(), Rates(1.0, 2.0)])
def test_a_snapshot_can_be_kept_compared_and_pickled_but_not_changed(snapshot: object) -> None:
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot  # noqa: S301 - our own pickle
    with pytest.raises((FrozenInstanceError, AttributeError)):
        snapshot.rates = None  # type: ignore[attr-defined]
