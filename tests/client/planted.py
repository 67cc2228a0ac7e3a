"""Bugs that tests plant in actors, and what whoever waits for one of them has to be told."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import pulsar_actors as pulsar
from tests.support.life import InThread

BUG = "a planted bug"


class Bug:
    """Has the next call of a method raise, on the actors for which that is wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> None:
        self._method: Callable[..., Any] = getattr(kind, method)
        self._wanted: Callable[[Any], bool] = lambda _: False
        self.happened = threading.Event()

        def run(actor: Any, *rest: Any) -> Any:
            return self._run(actor, *rest)

        monkeypatch.setattr(kind, method, run)

    def strike(self, wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Happen at the next call on an actor that is wanted."""
        self.happened.clear()
        self._wanted = wanted

    def _run(self, actor: Any, *rest: Any) -> Any:
        if self._wanted(actor):
            self._wanted = lambda _: False
            self.happened.set()
            raise ZeroDivisionError(BUG)
        return self._method(actor, *rest)


def names_the_bug(call: Callable[[], Any], kind: type) -> None:
    error = InThread(call).error()
    assert isinstance(error, pulsar.InternalError)
    assert BUG in str(error)
    assert kind.__name__ in str(error)
