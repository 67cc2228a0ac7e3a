"""`topics` with a web server that is none of Pulsar's. With brokers: tests/real_broker/test_topics_command.py."""

import pytest

from pulsar_actors.__main__ import main
from tests.support.ports import free_ports
from tests.support.web_server import Said, web_server

TOPIC = "persistent://public/default/t"


WORDS = [["list"], ["stats", TOPIC], ["peek", TOPIC, "-s", "s"], ["terminate", TOPIC]]
BODIES = [b"<html>", b"7", b"[7]", b"{}", b'{"partitions": 0}']


@pytest.mark.parametrize(
    ("words", "body"),
    [(words, body) for words in WORDS for body in BODIES if words != ["list"] or not body.startswith(b"{")],
)
def test_what_is_no_answer_of_pulsar_is_told_in_a_line(
    words: list[str], body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with web_server() as server:
        server.answer = lambda _: Said(body=body)
        assert main(["topics", *words, "-u", server.url]) == 1
    said = capsys.readouterr().err
    assert said.startswith("failed: ")
    assert len(said.splitlines()) == 1


def test_a_server_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-u", f"http://127.0.0.1:{free_ports(1)[0]}"]) == 1
    assert capsys.readouterr().err.startswith("failed: no connection to 127.0.0.1:")


@pytest.mark.parametrize("url", ["nonsense", "pulsar://127.0.0.1:6650", ""])
def test_an_address_that_is_none_of_a_web_server_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-u", url]) == 1
    needed = "--admin-url is the address of the brokers' web server, such as http://host:8080"
    assert capsys.readouterr().err == f"failed: {needed}\n"
