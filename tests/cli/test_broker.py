import errno
import inspect
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

import pulsar_actors as pulsar
from pulsar_actors.__main__ import main
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.cli.broker import BROKER, BrokerProcess, serve_until_stdin_ends
from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InvalidArgument
from tests.support.certificates import Authority

FREE = ("--port", "0", "--web-port", "0")


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "pulsar_actors", "broker", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        try:
            yield process
        finally:
            process.kill()


def lines_until_ready(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    said = ""
    while "ready" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_broker_prints_its_addresses_and_ends_in_good_order(ended_by: signal.Signals) -> None:
    with running(*FREE) as process:
        said = lines_until_ready(process)
        urls = re.findall(r"(pulsar|http)://127\.0\.0\.1:(\d+)", said)
        assert [scheme for scheme, _ in urls] == ["pulsar", "http"]
        for _, port in urls:
            socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
        process.send_signal(ended_by)
        out, errors = process.communicate(timeout=20)
        assert (process.returncode, out, errors) == (0, "stopped\n", "")


def test_with_watch_there_is_a_page() -> None:
    with running(*FREE, "--watch", "--topic", "orders") as process:
        (url,) = re.findall(r"^page         (http://127\.0\.0\.1:\d+/\S+/)$", lines_until_ready(process), re.MULTILINE)
        with urlopen(f"{url}snapshot", timeout=20) as answer:  # noqa: S310 - our own
            shown = json.load(answer)["shown"]
        assert [one["name"] for one in shown] == ["persistent://public/default/orders"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_port_that_is_in_use_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        for arguments in (("--port", port, "--web-port", "0"), ("--port", "0", "--web-port", port)):
            assert main(["broker", *arguments]) == 1
            said = capsys.readouterr()
            option = next(name for name, value in pairwise(arguments) if value == port)
            assert said.err == (
                f"cannot listen on port {port} of 127.0.0.1: {os.strerror(errno.EADDRINUSE)}; "
                f"{option} 0 takes a free one\n"
            )
            assert said.out == ""


def test_an_invalid_address_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--host", "", *FREE]) == 1
    said = capsys.readouterr()
    assert said.err == "--host is the address to listen on, such as 127.0.0.1, not ''\n"
    assert said.out == ""


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
@pytest.mark.parametrize("which", ["--port", "--web-port"])
def test_a_port_out_of_range_is_refused_with_the_range(
    which: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["broker", f"{which}={port}"])
    said = capsys.readouterr().err
    assert said.startswith("usage: python -m pulsar_actors broker ")
    assert f"argument {which}: takes a whole number from 0 to 65,535, got '{port}'" in said


@pytest.mark.parametrize(("option", "stored"), [((), 2), (("--deduplication",), 1)])
def test_with_deduplication_a_repeated_message_is_stored_once(option: tuple[str, ...], stored: int) -> None:
    with running(*FREE, *option) as process:
        (url,) = re.findall(r"pulsar://\S+", lines_until_ready(process))
        with Client(url) as client:
            for _ in range(2):
                with client.create_producer("t", producer_name="till-3") as producer:
                    producer.send(b"3 apples", sequence_id=7)
            with client.create_reader("t", MessageId.earliest) as reader:
                assert [reader.read_next(10_000).data() for _ in range(stored)] == [b"3 apples"] * stored
                assert not reader.has_message_available()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_with_a_data_folder_the_same_command_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    command = (*FREE, "--data", str(tmp_path / "data"), "--topic", "t", "--partitioned-topic", "p=2")
    for number in range(2):
        with running(*command) as process:
            said = lines_until_ready(process)
            assert f"ready; everything is kept in {tmp_path / 'data'}, and Ctrl-C ends it" in said
            (url,) = re.findall(r"pulsar://\S+", said)
            with Client(url) as client:
                client.create_producer("t").send(b"%d" % number)
                reader = client.create_reader("t", MessageId.earliest)
                assert [reader.read_next(10_000).data() for _ in range(number + 1)] == [b"0", b"1"][: number + 1]
                assert len(client.get_topic_partitions("p")) == 2
            process.kill()


def test_a_topic_that_is_there_with_other_partitions_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBroker(data_folder=tmp_path) as before:
        before.create_topic("t", 2)
    assert main(["broker", *FREE, "--data", str(tmp_path), "--partitioned-topic", "t=3"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("topic persistent://public/default/t cannot be created: ")
    assert len(said.splitlines()) == 1


def test_a_disk_that_is_full_ends_the_broker_with_an_error(tmp_path: Path) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "from pulsar_actors.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, "broker", *FREE, "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        (url,) = re.findall(r"pulsar://\S+", lines_until_ready(process))
        confirmed = 0
        with Client(url) as client:
            producer = client.create_producer("t", send_timeout_millis=60_000)
            threading.Thread(target=lambda: (process.wait(), client.shutdown())).start()
            with suppress(pulsar.PulsarException):
                while confirmed < 100:
                    producer.send(b"%1000d" % confirmed + bytes(9000))
                    confirmed += 1
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, "")
        assert errors.startswith(f"the broker cannot go on with its data in {tmp_path}: ")
    assert 0 < confirmed < 100
    with EmbeddedBroker(data_folder=tmp_path) as again, Client(again.service_url) as client:
        reader = client.create_reader("t", MessageId.earliest)
        assert [int(reader.read_next(10_000).data()[:1000]) for _ in range(confirmed)] == list(range(confirmed))
        assert not reader.has_message_available()


def test_the_default_ports_are_those_of_pulsar() -> None:
    parser = ArgumentParser()
    BROKER.configure(parser)
    parsed = parser.parse_args([])
    assert (parsed.host, parsed.port, parsed.web_port) == ("127.0.0.1", 6650, 8080)
    assert "6650" in parser.format_help()
    assert "8080" in parser.format_help()


def test_an_interrupt_is_a_regular_end_of_the_broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: EmbeddedBroker) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(EmbeddedBroker, "wait", interrupt)
    assert main(["broker", *FREE]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("stopped\n")
    assert said.err == ""
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile


def test_a_broker_process_serves_clients_and_ends_with_the_block() -> None:
    with BrokerProcess() as started:
        process = started._process
        assert process.pid != os.getpid()
        assert os.getsid(process.pid) != os.getsid(0)  # so Ctrl-C, in a terminal, does not reach it
        with pulsar.Client(started.service_url) as client, client.create_producer("t") as producer:
            producer.send(b"hello")
    assert process.returncode == 0


def test_a_broker_process_stores_a_repeated_message_once() -> None:
    with BrokerProcess() as started, pulsar.Client(started.service_url) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        with client.create_producer("t") as producer:
            for content, sequence_id in ((b"one", 1), (b"one", 1), (b"two", 2)):
                producer.send(content, sequence_id=sequence_id)
        assert [reader.read_next(10_000).data() for _ in range(2)] == [b"one", b"two"]
        assert not reader.has_message_available()


def test_a_broker_process_ends_when_its_parent_is_killed() -> None:
    script = (
        "from pulsar_actors.cli.broker import BrokerProcess\n"
        "with BrokerProcess() as started: print(started.service_url, flush=True); input()"
    )
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url = urlsplit(parent.stdout.readline().strip())
        with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
            parent.kill()
            assert connection.recv(1) == b""  # the broker is gone, and its connections with it


def test_a_broker_process_that_does_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.cli.broker._STOP_SECONDS", 0.2)
    with BrokerProcess() as started:
        process = started._process
        process.send_signal(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL


def test_a_broker_process_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.cli.broker._CHILD_COMMAND", (sys.executable, "-c", ""))
    with pytest.raises(OSError, match="the embedded broker did not start"):
        BrokerProcess().__enter__()


def test_the_child_prints_its_url_and_serves_until_its_input_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[list[str]] = []

    class Input(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            with pulsar.Client(capsys.readouterr().out.strip()) as client:
                served.append(client.get_topic_partitions("t"))
            return ""

    monkeypatch.setattr(sys, "stdin", Input())
    serve_until_stdin_ends()
    assert served == [["persistent://public/default/t"]]


def started(process: "subprocess.Popen[str]") -> dict[str, str]:
    """Return what the broker prints: its URLs by their schemes, and the tokens by their names."""
    said = lines_until_ready(process)
    urls = {url.partition(":")[0]: url for url in re.findall(r"URL +(\S+)", said)}
    return urls | {name: token for token, name in re.findall(r"token +(\S+) +for (\S+)", said)}


def authenticated(url: str, authentication: pulsar.Authentication | None, **options: str) -> bool:
    """Return whether a client with these credentials is let in."""
    try:
        with Client(url, authentication=authentication, operation_timeout_seconds=10, **options) as client:
            client.create_producer("t").send(b"x")
    except pulsar.AuthenticationError:
        return False
    return True


def test_only_those_with_a_token_that_is_printed_or_signed_with_the_secret_are_let_in(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of the test, of 32 bytes\n")
    with running(*FREE, "--token-secret-file", str(tmp_path / "secret"), "--token-for", "ann") as process:
        said = started(process)
        signed = Tokens(b"a secret of the test, of 32 bytes").issue("bob")
        for token, let_in in ((said["ann"], True), (signed, True), (Tokens(b"another").issue("eve"), False)):
            assert authenticated(said["pulsar"], pulsar.AuthenticationToken(token)) is let_in
        assert not authenticated(said["pulsar"], None)


def test_a_token_without_a_secret_is_signed_with_a_new_one(tmp_path: Path) -> None:
    with running(*FREE, "--token-for", "ann") as process, running(*FREE, "--token-for", "ann") as another:
        first, second = started(process), started(another)
        assert authenticated(first["pulsar"], pulsar.AuthenticationToken(first["ann"]))
        assert not authenticated(first["pulsar"], pulsar.AuthenticationToken(second["ann"]))


def test_only_those_with_a_password_of_the_file_are_let_in(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("ann:s3cret\n\nbob:with:colons\n")
    with running(*FREE, "--password-file", str(tmp_path / "passwords")) as process:
        url = started(process)["pulsar"]
        assert authenticated(url, pulsar.AuthenticationBasic("ann", "s3cret"))
        assert authenticated(url, pulsar.AuthenticationBasic("bob", "with:colons"))
        assert not authenticated(url, pulsar.AuthenticationBasic("bob", "with"))


def test_with_a_certificate_it_serves_tls_and_can_ask_for_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, client = authority.certify(), authority.certify(file_name="ann")
    tls = ("--certificate-file", files.certificate, "--private-key-file", files.key)
    free = (*FREE, "--tls-port", "0", "--web-tls-port", "0")
    with running(*free, *tls, "--trust-certs-file", authority.file) as process:
        said = started(process)
        assert set(said) == {"pulsar", "http", "pulsar+ssl", "https"}
        shown = pulsar.AuthenticationTLS(client.certificate, client.key)
        assert authenticated(said["pulsar+ssl"], shown, tls_trust_certs_file_path=authority.file)
        assert not authenticated(said["pulsar"], None)


def test_topics_are_created_before_anybody_can_ask(tmp_path: Path) -> None:
    with running(*FREE, "--topic", "a", "--topic", "b", "--partitioned-topic", "c=3") as process:
        said = started(process)
        with Client(said["pulsar"]) as client:
            assert len(client.get_topic_partitions("c")) == 3
        with urlopen(f"{said['http']}/admin/v2/persistent/public/default") as answer:  # noqa: S310 - of the test
            names = {name.rpartition("/")[2] for name in json.load(answer)}
        assert names == {"a", "b", *(f"c-partition-{index}" for index in range(3))}


def test_the_log_is_written_at_its_level_to_the_standard_error() -> None:
    with running(*FREE, "--log-level", "INFO") as process:
        assert authenticated(started(process)["pulsar"], None)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert re.search(r"INFO pulsar_actors\.broker: connection 1 from 127\.0\.0\.1 is accepted", errors)


@pytest.mark.parametrize(
    ("content", "option", "says"),
    [
        (None, "--token-secret-file", "{file}: No such file or directory\n"),
        (b" \n", "--token-secret-file", "{file} has no secret in it\n"),
        (None, "--password-file", "{file}: No such file or directory\n"),
        (b"", "--password-file", "{file} has no line NAME:PASSWORD\n"),
        (b"ann:s3cret\nbob s3cret\n", "--password-file", "{file}: line 2 is not NAME:PASSWORD\n"),
        (b"ann:\n", "--password-file", "{file}: line 1 is not NAME:PASSWORD\n"),
        (b"\xff", "--password-file", "'utf-8' codec can't decode"),
        (b"x", "--certificate-file", "TLS takes both --certificate-file and --private-key-file, and only one"),
        (b"x", "--trust-certs-file", "--trust-certs-file is for clients that come over TLS, which takes a --certif"),
        (b"x", "--data", "{file} is no folder, so no data can be stored in it\n"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_of_one_line_without_a_secret(
    content: bytes | None, option: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    assert main(["broker", *FREE, option, str(file)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(says.format(file=file))
    assert len(said.err.splitlines()) == 1
    assert "s3cret" not in said.err


@pytest.mark.parametrize("option", ["--tls-port", "--web-tls-port"])
def test_a_port_for_tls_without_a_certificate_is_refused(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedBroker, "wait", lambda _: None)
    assert main(["broker", *FREE, option, "7000"]) == 1
    assert capsys.readouterr().err == f"{option} is for TLS, which takes a --certificate-file, and there is none\n"


def test_a_broker_that_is_open_to_others_warns_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedBroker, "wait", lambda _: None)
    assert main(["broker", *FREE, "--host", "0.0.0.0"]) == 0  # noqa: S104 - it is the subject
    said = capsys.readouterr().err
    assert said.startswith("warning: the embedded broker listens on 0.0.0.0: anyone ")
    assert len(said.splitlines()) == 1


TOO_MANY = ["orders=100001", "orders=99999999", "orders=" + "9" * 5000]


@pytest.mark.parametrize("given", ["orders", "orders=", "=3", "orders=0", "orders=-1", "orders=x", *TOO_MANY])
def test_a_partitioned_topic_has_a_number_of_partitions(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker", "--partitioned-topic", given, "--port", "none"])  # which stops it in any case
    says = f"argument --partitioned-topic: takes TOPIC=PARTITIONS, from 1 to 100,000 of them, got '{given}'"
    assert says in capsys.readouterr().err


def test_a_topic_that_cannot_be_created_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", *FREE, "--topic", "a", "--topic", "a"]) == 1
    assert "topic persistent://public/default/a cannot be created: " in capsys.readouterr().err


def test_settings_and_the_rest_of_what_the_class_takes_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def note(*arguments: Any, **options: Any) -> None:
        given.update(inspect.signature(EmbeddedBroker).bind(*arguments, **options).arguments)
        raise InvalidArgument("that will do")

    monkeypatch.setattr("pulsar_actors.cli.broker.EmbeddedBroker", note)
    settings = ("max_message_size=1000", "failover_delay=0.5", "allow_auto_topic_creation=false", "cluster_name=home")
    words = [word for each in settings for word in ("--setting", each)]
    assert main(["broker", *words, "--deduplication", "--keepalive", "5", "--broker-entry-metadata"]) == 1
    assert given["settings"] == Settings(
        cluster_name="home", max_message_size=1000, failover_delay=0.5, allow_auto_topic_creation=False,
        deduplication=True,
    )  # fmt: skip
    assert (given["keepalive_seconds"], given["broker_entry_metadata"]) == (5.0, True)
    assert list(given) == list(inspect.signature(EmbeddedBroker).parameters)


def test_a_limit_that_is_set_holds() -> None:
    with (
        running(*FREE, "--setting", "max_message_size=100") as process,
        Client(started(process)["pulsar"]) as client,
        pytest.raises(pulsar.MessageTooBig),
    ):
        client.create_producer("t").send(bytes(101))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("max_size=1", "takes NAME=VALUE with a name of cluster_name, max_message_size, "),
        ("max_message_size", "max_message_size takes a whole number, got ''"),
        ("max_message_size=1.5", "max_message_size takes a whole number, got '1.5'"),
        ("failover_delay=soon", "failover_delay takes a number, got 'soon'"),
        ("deduplication=yes", "deduplication takes true or false, got 'yes'"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker", "--setting", setting, "--port", "none"])  # which stops it in any case
    assert f"argument --setting: {says}" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_setting_with_which_no_broker_can_work_is_an_error_of_one_line(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *FREE, "--setting", f"max_message_size={value}"]) == 1
    assert capsys.readouterr().err == f"max_message_size is 1 or more, not {value}\n"
