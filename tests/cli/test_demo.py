import io
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pulsar_actors.__main__ import main
from pulsar_actors.broker import EmbeddedBroker, Settings
from pulsar_actors.cli import demo
from pulsar_actors.cli.demo import Progress
from pulsar_actors.cli.demo_traffic import Traffic
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.life import closed_port, until

COUNT = "3000"
DEMO = ("-m", "pulsar_actors", "demo")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def on(broker: EmbeddedBroker, *arguments: str) -> int:
    return main(["demo", "--service-url", broker.service_url, "--messages", COUNT, "--no-spark", *arguments])


def test_without_a_service_url_the_demo_starts_a_broker_and_prints_what_it_measured() -> None:
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-W", "error", *DEMO, "--messages", "20000", "--size", "64", "--no-spark"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    assert re.search(r"20,000 messages of 64 bytes through a broker in memory, .* at pulsar://127\.0\.0\.1:\d+", said)
    assert re.search(
        r"^cut the client's connection to the broker: [\d,]+ messages? sent, and not yet acknowledged$",
        said,
        re.MULTILINE,
    )
    assert re.search(r"^ *\d+ %  sent [\d,]+ \([\d,]+/s\)  received [\d,]+ \([\d,]+/s\)$", said, re.MULTILINE)
    assert re.search(r"^sent         20,000 messages in \d+\.\d\d s, [\d,]+/s$", said, re.MULTILINE)
    assert re.search(r"^received     20,000 messages in \d+\.\d\d s, [\d,]+/s$", said, re.MULTILINE)
    assert re.search(r"^reconnects   of the producer 1, of the consumer 1$", said, re.MULTILINE)
    assert re.search(
        r"^outage       \d+\.\d{3} s from the cut until the broker acknowledged a message again;$", said, re.MULTILINE
    )
    assert re.search(r"^came twice   (none|[\d,]+ messages?, delivered again:)$", said, re.MULTILINE)
    assert said.endswith("verified     all 20,000: each is what was sent, in order, and none is missing\n")


def test_two_messages_are_enough_for_a_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--messages", "2", "--size", "8", "--no-spark"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^cut the client's connection to the broker: [012] messages? sent", said, re.MULTILINE)
    assert "verified     all 2: " in said


def test_the_demo_runs_on_a_broker_of_the_user(
    broker: EmbeddedBroker, subscriptions: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert on(broker) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"3,000 messages of 100 bytes through your broker at {broker.service_url}\n")
    assert "verified     all 3,000: " in said.out
    assert said.err == ""
    assert subscriptions() == []


def test_a_lost_message_is_printed_and_makes_the_exit_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    first = 0  # there may be no other, for a busy machine makes large batches
    # What was sent before the cut is sent again, and stored twice by a broker that does not know it by its number.
    with EmbeddedBroker(settings=Settings(deduplication=True)) as broker:
        lost = broker.faults.on(
            pb.CommandMessage, times=None, when=lambda sent: sent.message_id.entryId == first
        ).drop()
        assert on(broker) == 1
        assert lost.happened
    said = capsys.readouterr()
    assert re.search(r"^failed: message ", said.err, re.MULTILINE)
    assert "verified" not in said.out


def test_without_a_broker_the_error_is_printed_and_the_exit_status_is_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_OPERATION_TIMEOUT", 1.0)
    with closed_port() as url:
        assert main(["demo", "--service-url", url]) == 1
    assert capsys.readouterr().err.startswith("failed: ")


def test_a_subscription_that_cannot_be_deleted_is_named(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.faults.on(pb.CommandUnsubscribe).refuse(pb.ServerError.MetadataError, "not now")
    assert on(broker) == 0
    assert re.match(
        r"the subscription to persistent://public/default/demo-\w+ could not be deleted: .*not now",
        capsys.readouterr().err,
    )


def test_repeated_messages_are_reported_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        broker.faults.on(pb.CommandSendReceipt, nth=3).close_connection()
        broker.faults.on(pb.CommandMessage, when=lambda sent: sent.message_id.entryId == 5).duplicate()
        assert on(broker) == 0
    said = capsys.readouterr().out
    assert re.search(r"^came twice   [\d,]+ messages?, delivered again:$", said, re.MULTILINE)
    assert re.search(r"^came twice   [\d,]+ messages?, stored again: ", said, re.MULTILINE)
    assert "none" not in said.replace("none is missing", "")


def test_ctrl_c_ends_the_demo_without_a_traceback_and_leaves_nothing_on_the_broker(
    broker: EmbeddedBroker, subscriptions: Callable[[], list[str]]
) -> None:
    command = [sys.executable, *DEMO, "--messages", "100000000"]
    with subprocess.Popen(  # noqa: S603 - our own words
        [*command, "--service-url", broker.service_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        broker.faults.on(pb.CommandMessage, nth=5).delay(0).wait(timeout=30)  # it has begun
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130, "stopped\n", "")
    assert subscriptions() == []


def test_ctrl_c_ends_the_demo_also_if_the_broker_is_silent(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt_when_stuck(traffic: Traffic) -> None:
        broker.faults.on(pb.CommandSend, times=None).stall()
        flush, is_flushing = traffic.producer.flush, threading.Event()

        def note_and_flush() -> None:
            is_flushing.set()
            flush()

        monkeypatch.setattr(traffic.producer, "flush", note_and_flush)
        traffic.start()
        assert is_flushing.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_watch", interrupt_when_stuck)
    monkeypatch.setattr(demo, "_OPERATION_TIMEOUT", 1.0)
    before = threading.enumerate()
    assert on(broker) == 130
    said = capsys.readouterr()
    assert said.out.endswith("stopped\n")
    assert "could not be deleted: the broker does not answer" in said.err
    for thread in set(threading.enumerate()).difference(before):  # the sender has yet to hear of the end
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arguments", "takes"),
    [
        (["--messages", "1"], "from 2 to 1,000,000,000, got '1'"),
        (["--messages", "many"], "from 2 to 1,000,000,000, got 'many'"),
        (["--size", "7"], "from 8 to 1,048,576, got '7'"),
        (["--size", "9999999"], "from 8 to 1,048,576, got '9999999'"),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(
    arguments: list[str], takes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["demo", *arguments])
    assert f"takes a whole number {takes}" in capsys.readouterr().err


def test_figures_that_were_not_measured_are_not_printed(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.faults.on(pb.CommandSend, times=None).refuse(pb.ServerError.TopicTerminatedError, "it is over")
    assert on(broker) == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"failed: a message could not be sent: Result\.(TopicTerminated|UnknownError)\n", said.err)
    assert re.search(r"^sent         0 messages$", said.out, re.MULTILINE)
    assert re.search(r"^received     0 messages$", said.out, re.MULTILINE)
    for word in ("outage", "came twice", "verified"):
        assert word not in said.out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_tenth_is_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream, 200)
    for done in (0, 19, 20, 21, 39, 100, 200):
        progress.show(done, f"{done} done")
    assert stream.getvalue().splitlines() == [" 10 %  20 done", " 50 %  100 done", "100 %  200 done"]


def test_without_a_terminal_a_line_that_stays_is_a_line_of_its_own() -> None:
    stream = io.StringIO()
    progress = Progress(stream, 10)
    progress.show(1, "one")
    progress.print_line("something happened")
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
    progress.print_line("something happened")
    assert stream.getvalue().endswith(" \rsomething happened\n")


def test_a_line_is_never_longer_than_the_terminal_is_wide(narrow: int) -> None:
    stream = Terminal()
    Progress(stream, 4).show(1, "x" * 100)
    assert len(stream.getvalue()) == narrow  # the return, and one less than there are columns


def shown_by(process: "subprocess.Popen[str]") -> Callable[[], dict[str, Any]]:
    """Return a function that reads what the page of a demo shows, by the first word of the names."""
    assert process.stdout is not None
    url = process.stdout.readline().split()[1]
    assert process.stdout.readline() == "ready; Ctrl-C ends it\n"

    def shown() -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}snapshot", timeout=20) as answer:  # noqa: S310 - our own
            return {one["name"].partition(" ")[0]: one for one in json.load(answer)["shown"]}

    return shown


@contextmanager
def watched(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-W", "error", *DEMO, "--watch", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        try:
            yield process
        finally:
            process.kill()


def test_with_watch_messages_flow_until_ctrl_c_and_a_page_shows_them() -> None:
    with watched() as process:
        shown = shown_by(process)
        until(lambda: shown()["producer"]["counters"]["sent"] > 50)
        until(lambda: shown()["consumer"]["counters"]["received"] > 50)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert re.fullmatch(
        r"sent         \d+ messages, of which \d+ are stored\n"
        r"received     \d+, and 0 again\n"
        r"verified     each is what was sent, in order, and none is missing\n",
        out,
    )


def test_with_watch_your_broker_may_fail_and_nothing_is_lost(broker: EmbeddedBroker) -> None:
    with watched("--service-url", broker.service_url) as process:
        shown = shown_by(process)
        until(lambda: shown()["consumer"]["counters"]["received"] > 50)
        for cuts in range(1, 4):
            broker.cut_connections()
            until(lambda cuts=cuts: shown()["producer"]["counters"]["reconnects"] == cuts)
        until(lambda: shown()["producer"]["gauges"]["pending"] < 50)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert "verified     each is what was sent, in order, and none is missing\n" in out
