import pytest

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.runtime.handle_link import HandleCounters


@pytest.mark.parametrize(("attachments", "reconnects"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_the_first_time_at_a_broker_is_no_reconnect(attachments: int, reconnects: int) -> None:
    counters = HandleCounters()
    counters.attachments = attachments
    assert counters.reconnects == reconnects


def test_what_went_wrong_last_is_told_in_words() -> None:
    counters = HandleCounters()
    assert counters.last_error_text is None
    counters.last_error = ConnectionLost("gone")
    assert counters.last_error_text == "gone"
