import re
from pathlib import Path

import pytest

import pulsar_actors as pulsar
from pulsar_actors.__main__ import main
from pulsar_actors.broker import EmbeddedBroker


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Save the history of a client whose producer has lost its connection."""
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("t")
        broker.faults.on("send").close_connection()
        producer.send(b"x")
        client.history().save(tmp_path / "history.json")
    return tmp_path / "history.json"


def test_the_page_is_written_beside_the_history(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(saved)]) == 0
    page = saved.with_suffix(".html")
    history = pulsar.History.load(saved)
    assert capsys.readouterr().out == f"{page}: {len(history)} changes of {len({c.actor for c in history})} actors\n"
    assert page.read_text().count('class="box"') == len(history)


def test_the_page_may_be_written_elsewhere(saved: Path, tmp_path: Path) -> None:
    assert main(["explain", str(saved), "--output", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page").read_text().startswith("<!doctype html>")


def test_the_page_tells_what_failed_and_what_the_names_mean_and_loads_nothing(saved: Path) -> None:
    main(["explain", str(saved)])
    page = saved.with_suffix(".html").read_text()
    (failed,) = re.findall(r"<h2>What failed</h2>\n<ul>\n(.*?)</ul>", page, re.DOTALL)
    assert re.search("producer READY -&gt; WAITING on detached \\(ConnectionLost\\)", failed)
    assert "<td><code>WAITING</code></td><td>Something failed; after a pause the topic is looked up again.</td>" in page
    assert "<td><code>retry_due</code></td><td>The pause before the next attempt is over.</td>" in page
    assert not re.search(r"(src|href|url|import|<script)\b", page.replace("service_url", ""))


def test_a_history_of_another_version_is_drawn_as_far_as_it_is_known(tmp_path: Path) -> None:
    change = pulsar.StateChange(1.0, "the newest of actors", "newest", "e", "A", "B", None, None, None)
    pulsar.History([change]).save(tmp_path / "h.json")
    assert main(["explain", str(tmp_path / "h.json")]) == 0
    assert "no chart with the name newest" in (tmp_path / "h.html").read_text()


FORMAT = "pulsar_actors history, version 1"
NONE = "'{}' is no saved history: "


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "'{}': No such file or directory"),
        ("", f"{NONE}it is no JSON (Expecting value: line 1 column 1 (char 0))"),
        ("null", f"{NONE}it has no format {FORMAT!r}"),
        ("{}", f"{NONE}it has no format {FORMAT!r}"),
        ('{"format": "' + FORMAT + '", "changes": 3}', f"{NONE}it has no list of changes"),
        ('{"format": "' + FORMAT + '", "changes": [{}]}', f"{NONE}change 1 in it is not whole"),
        ('{"format": "' + FORMAT + '", "changes": []}', "'{}' is an empty history"),
    ],
)
def test_what_cannot_be_explained_is_told(
    content: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.json"
    if content is not None:
        file.write_text(content)
    assert main(["explain", str(file)]) == 1
    assert capsys.readouterr().err == f"explain: {says.format(file)}\n"
    assert not (tmp_path / "h.html").exists()


def test_a_page_that_cannot_be_written_is_told(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(saved), "--output", str(saved.parent / "no" / "page.html")]) == 1
    assert "page.html" in capsys.readouterr().err
