import pytest

from pulsar_actors.client.anew import anew
from pulsar_actors.exceptions import AlreadyClosed, InternalError


def test_an_error_given_anew_is_another_one_that_says_the_same() -> None:
    error = InternalError("a bug")
    error.__cause__ = ValueError("of this kind")
    fresh = anew(error)
    assert fresh is not error
    assert (type(fresh), str(fresh), fresh.__cause__) == (InternalError, "a bug", error.__cause__)


def test_raising_an_error_anew_keeps_no_frames_on_the_one_that_lasts() -> None:
    error = AlreadyClosed("closed")
    with pytest.raises(AlreadyClosed):
        raise anew(error)
    assert error.__traceback__ is None
