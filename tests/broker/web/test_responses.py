import json

import pytest

from pulsar_actors.broker.web.responses import DONE, EMPTY, Response, as_json, encode_response, refused

NOON = 1_700_000_000_000


def written(response: Response, *, keeps_alive: bool = True, with_body: bool = True) -> bytes:
    return b"".join(encode_response(response, now_ms=NOON, keeps_alive=keeps_alive, with_body=with_body))


def test_an_answer_is_a_status_line_headers_and_a_body() -> None:
    assert written(as_json({"a": [1, "\xe9"]})) == (
        b"HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Type: application/json\r\n"
        b'Content-Length: 14\r\n\r\n{"a":[1,"\xc3\xa9"]}'
    )


def test_what_was_done_has_neither_body_nor_length() -> None:
    assert b"Content-" not in written(DONE)
    assert written(DONE).endswith(b"GMT\r\n\r\n")


def test_an_empty_answer_says_that_it_is_empty() -> None:
    assert written(EMPTY).endswith(b"Content-Length: 0\r\n\r\n")


def test_to_head_the_length_of_the_body_is_told_and_the_body_is_not_sent() -> None:
    assert written(Response(200, b"hello"), with_body=False).endswith(b"Content-Length: 5\r\n\r\n")


def test_the_last_answer_on_a_connection_says_so() -> None:
    assert b"\r\nConnection: close\r\n" in written(EMPTY, keeps_alive=False)
    assert b"Connection" not in written(EMPTY)


def test_a_refusal_has_its_reason_in_json_and_the_headers_that_it_came_with() -> None:
    answer = refused(405, 'no "PUT" here', (("Allow", "GET"),))
    assert json.loads(answer.body) == {"reason": 'no "PUT" here'}
    assert b"HTTP/1.1 405 Method Not Allowed\r\n" in written(answer)
    assert b"\r\nAllow: GET\r\n" in written(answer)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a\r\nX-Evil: b", b"X-Key: a  X-Evil: b"),
        ("\x00a\x7f\n", b"X-Key:  a  "),
        ("\u65e5a\xe9", b"X-Key:  a\xe9"),
        ("tab\t", b"X-Key: tab\t"),
    ],
)
def test_a_value_that_a_user_chose_stays_within_its_header(value: str, line: bytes) -> None:
    assert line in written(Response(200, headers=(("X-Key", value),))).split(b"\r\n")


def test_text_that_has_no_utf8_form_does_not_keep_an_answer_from_being_written() -> None:
    assert as_json("\ud800").body == b'"?"'
