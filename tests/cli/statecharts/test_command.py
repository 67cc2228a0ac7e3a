import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from errno import EACCES
from pathlib import Path
from types import ModuleType

import pytest

from pulsar_actors.__main__ import main
from pulsar_actors.cli.statecharts.command import all_charts, drawings, drift, write
from pulsar_actors.machines.chart import Chart
from pulsar_actors.statecharts.drawn_chart import drawn_charts
from tests.support.sources import reads_sources

REPOSITORY = Path(__file__).parents[3]
CHARTS = [pytest.param(chart, id=chart.name) for chart, _ in all_charts()]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {name: content.decode() for name, content in drawings(all_charts()).items()}


@pytest.fixture
def drawn(texts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "statecharts", {name: text.encode() for name, text in texts.items()})
    return tmp_path / "statecharts"


def shown_text(chart: Chart, texts: dict[str, str]) -> str:
    """Return what the pictures say about a chart: its own, and that of the rows that several charts share."""
    pictures = [texts[f"{chart.name}.svg"], texts["connection_handler.svg"]]
    lines = [line for one in pictures for line in ET.fromstring(one).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - we wrote it
    return "\n".join("".join(line.itertext()) for line in lines)


@reads_sources
def test_the_committed_pictures_are_those_of_the_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["statecharts", "--check"]) == 0


def test_every_chart_gets_a_picture_a_mermaid_source_and_a_place_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["statecharts"]) == 0
    drawn = tmp_path / "statecharts"
    names = {chart.name for chart in drawn_charts(all_charts())}
    assert names == {"connection_handler", *(chart.name for chart, _ in all_charts())}
    assert {path.name for path in drawn.iterdir()} == {
        "README.md",
        *(f"{name}.svg" for name in names),
        *(f"{name}.mmd" for name in names),
    }
    page = (drawn / "README.md").read_text()
    assert all(f"]({name}.svg)" in page for name in names)


@pytest.mark.parametrize("chart", CHARTS)
def test_every_state_is_named_in_the_text_of_the_picture(chart: Chart, texts: dict[str, str]) -> None:
    lines = shown_text(chart, texts).splitlines()
    assert {state.name for state in chart.states} <= set(lines)


@pytest.mark.parametrize("chart", CHARTS)
def test_every_state_and_its_sentence_are_on_the_page(chart: Chart, texts: dict[str, str]) -> None:
    page = texts["README.md"]
    assert all(f"| **{state.name}** | {state.value}" in page for state in chart.states)


@pytest.mark.parametrize("chart", CHARTS)
def test_every_action_and_guard_of_a_chart_can_be_read_in_its_picture(chart: Chart, texts: dict[str, str]) -> None:
    shown = " ".join(shown_text(chart, texts).split())
    for row in chart.rows:
        assert row.does is None or f"/ {row.does.replace('_', ' ')}" in shown
        assert row.does is None or row.guard is None or f"[{row.guard.replace('_', ' ')}]" in shown


@pytest.mark.parametrize("chart", CHARTS)
def test_a_picture_fetches_nothing_and_runs_nothing(chart: Chart, texts: dict[str, str]) -> None:
    svg = texts[f"{chart.name}.svg"]
    assert svg.count("http") == 1
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    assert not any(word in svg for word in ("<script", "href", "url(", "@import", "<image", "<foreignObject"))
    attributes = {name for element in ET.fromstring(svg).iter() for name in element.attrib}  # noqa: S314 - we wrote it
    assert not any(name.startswith("on") for name in attributes)


def test_a_fresh_drawing_has_no_drift(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (drawn / "README.md").is_file()
    assert main(["statecharts", "--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_changed_byte_is_drift(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = drawn / "connection.svg"
    picture.write_bytes(picture.read_bytes().replace(b"READY", b"REEDY", 1))
    changed = picture.read_bytes()
    assert main(["statecharts", "--check"]) == 1
    assert "connection.svg differs" in capsys.readouterr().err
    assert picture.read_bytes() == changed


def test_a_missing_file_is_drift_and_stays_missing(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (drawn / "connection.mmd").unlink()
    assert main(["statecharts", "--check"]) == 1
    assert "connection.mmd is missing" in capsys.readouterr().err
    assert not (drawn / "connection.mmd").exists()


def test_a_folder_that_was_never_drawn_is_drift_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["statecharts", "--check"]) == 1
    assert "README.md is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_picture_of_a_chart_that_is_gone_is_drift(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (drawn / "toaster.svg").write_text("<svg/>")
    (drawn / "notes.txt").write_text("somebody's own")
    assert main(["statecharts", "--check"]) == 1
    errors = capsys.readouterr().err
    assert "toaster.svg belongs to no chart" in errors
    assert "notes" not in errors


def test_a_new_row_is_drift_in_every_file(
    tmp_path: Path, kettle: tuple[Chart, ModuleType], altered_kettle: tuple[Chart, ModuleType]
) -> None:
    write(tmp_path, drawings([kettle]))
    assert drift(tmp_path, drawings([kettle])) == []
    problems = drift(tmp_path, drawings([altered_kettle]))
    assert [Path(problem.split()[0]).name for problem in problems] == ["README.md", "kettle.mmd", "kettle.svg"]


def test_the_page_says_what_a_machine_decides_and_what_it_ignores(kettle: tuple[Chart, ModuleType]) -> None:
    page = drawings([kettle])["README.md"].decode()
    assert "## kettle\n\nIt boils water.\n\nNothing else.\n" in page
    assert "| `thermostat_read` | HEATING | `is_hot` | `sing_a_little_song` | BOILING |" in page
    assert "| `tapped` | COLD, HEATING, BOILING, BROKEN |  | `ring` | stays |" in page
    assert "| `dropped` | BROKEN |" not in page
    assert "- `dropped` in BROKEN\n" in page


def test_the_page_says_what_the_words_of_the_table_mean_in_the_sentences_that_they_have_in_the_code(
    kettle: tuple[Chart, ModuleType],
) -> None:
    page = drawings([kettle])["README.md"].decode()
    assert "| `thermostat_read` | The water has a temperature. |" in page
    assert "| `is_hot` | Hold at a hundred degrees, or nearly. |" in page
    assert "| `close_the_circuit` | Let it begin. |" in page
    assert page.count("| `apologise` | Let it begin. |") == 1


def test_the_mermaid_source_is_a_titled_diagram_of_the_states(kettle: tuple[Chart, ModuleType]) -> None:
    source = drawings([kettle])["kettle.mmd"].decode()
    assert source.startswith("---\ntitle: kettle\n---\nstateDiagram-v2\n")
    assert "  HEATING --> BOILING: thermostat_read [is_hot] / sing_a_little_song\n" in source
    assert "  [*] --> COLD\n" in source
    assert source.endswith("  BROKEN --> [*]\n")


@pytest.mark.parametrize("seed", ["1", "2", "77"])
def test_every_run_draws_the_same(seed: str, tmp_path: Path, drawn: Path) -> None:
    elsewhere = tmp_path / seed
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pulsar_actors", "statecharts"]
    subprocess.run(command, cwd=elsewhere, env=environment, check=True, capture_output=True)  # noqa: S603 - our own
    for path in drawn.iterdir():
        assert (elsewhere / "statecharts" / path.name).read_bytes() == path.read_bytes()


def put_a_file_in_the_way(folder: Path) -> None:
    folder.write_text("somebody's own")


def put_a_folder_in_the_way(folder: Path) -> None:
    (folder / "README.md").mkdir(parents=True)


def fill_the_disk(folder: Path) -> None:
    folder.mkdir()
    (folder / "README.md").symlink_to("/dev/full")


@pytest.mark.parametrize(
    ("obstruct", "error"),
    [
        (put_a_file_in_the_way, "cannot write statecharts: File exists\n"),
        (put_a_folder_in_the_way, "cannot write statecharts/README.md: Is a directory\n"),
        (fill_the_disk, "cannot write statecharts: No space left on device\n"),
    ],
)
def test_what_can_not_be_written_is_an_error_of_one_line(
    obstruct: Callable[[Path], None],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    obstruct(tmp_path / "statecharts")
    assert main(["statecharts"]) == 1
    assert capsys.readouterr() == ("", error)


def test_a_folder_that_may_not_be_written_is_an_error_of_one_line(
    drawn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, _: bytes) -> None:  # a read-only folder does not stop root, whom the tests may run as
        raise PermissionError(EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert main(["statecharts"]) == 1
    assert capsys.readouterr() == ("", f"cannot write {drawn.name}/README.md: Permission denied\n")


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "statecharts" in capsys.readouterr().out


def test_an_unknown_command_is_refused_and_the_known_ones_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["statechart"])
    assert "statecharts" in capsys.readouterr().err


def test_the_help_of_the_command_explains_check(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["statecharts", "--help"])
    assert "write nothing" in capsys.readouterr().out
