from pulsar_actors.exceptions import BrokerRefusal
from pulsar_actors.machines.ledgers.last_failure import after


def test_a_failure_is_named_at_the_end_of_a_sentence_and_none_adds_nothing() -> None:
    assert after(BrokerRefusal("ServiceNotReady", "starting")) == "; the last failure was: ServiceNotReady: starting"
    assert after(None) == ""
