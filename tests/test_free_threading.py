import sys

import pytest

from pulsar_actors.free_threading import warn_if_free_threaded
from tests.support.life import run_program

PROGRAM = """
import sys
sys._is_gil_enabled = lambda: False
import pulsar_actors
"""


def test_a_python_with_its_lock_is_told_nothing() -> None:
    warn_if_free_threaded()  # a warning is an error here


def test_a_python_of_before_there_was_a_choice_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    warn_if_free_threaded()


def test_a_python_without_its_lock_is_told_at_the_import_what_to_do() -> None:
    ran = run_program(PROGRAM)
    assert ran.code == 0
    assert "RuntimeWarning: pulsar_actors needs the interpreter's lock" in ran.err
    assert "PYTHON_GIL=1" in ran.err
