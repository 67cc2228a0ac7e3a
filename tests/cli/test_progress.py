import io

import pytest

from pulsar_actors.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_where_the_output_is_no_terminal_each_tenth_is_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream, 200)
    for done in (0, 19, 20, 21, 39, 100, 200):
        progress.show(done, f"{done} done")
    assert stream.getvalue().splitlines() == [" 10 %  20 done", " 50 %  100 done", "100 %  200 done"]


def test_a_line_that_stays_is_a_line_of_its_own_there() -> None:
    stream = io.StringIO()
    progress = Progress(stream, 10)
    progress.show(1, "one")
    progress.say("something happened")
    progress.end()
    assert stream.getvalue() == " 10 %  one\nsomething happened\n"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")
    return 60


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_one_line_changes_and_is_gone_at_the_end() -> None:
    stream = Terminal()
    progress = Progress(stream, 4)
    progress.show(1, "one of four")
    progress.show(2, "two")
    progress.end()
    first, second, blank, nothing = stream.getvalue().split("\r")[1:]
    assert first == "[###...........]  25 %  one of four"
    assert second == "[#######.......]  50 %  two".ljust(len(first))
    assert blank == " " * len(second.rstrip())
    assert nothing == ""


@pytest.mark.usefixtures("narrow")
def test_a_line_that_stays_takes_the_place_of_the_one_that_changes() -> None:
    stream = Terminal()
    progress = Progress(stream, 4)
    progress.show(1, "one")
    progress.say("something happened")
    assert stream.getvalue().endswith(" \rsomething happened\n")


def test_a_line_is_never_longer_than_the_terminal_is_wide(narrow: int) -> None:
    stream = Terminal()
    Progress(stream, 4).show(1, "x" * 100)
    assert len(stream.getvalue()) == narrow  # the return, and one less than there are columns
