import pytest

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.runtime.vitals import Vitals


@pytest.mark.parametrize(("attachments", "reconnects"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_the_first_time_at_a_broker_is_no_reconnect(attachments: int, reconnects: int) -> None:
    vitals = Vitals()
    vitals.attachments = attachments
    assert vitals.reconnects == reconnects


def test_what_went_wrong_last_is_told_in_words() -> None:
    vitals = Vitals()
    assert vitals.last_error_text is None
    vitals.last_error = ConnectionLost("gone")
    assert vitals.last_error_text == "gone"
