from typing import Any

import pytest

TOPIC = "/admin/v2/persistent/public/default/p/partitions"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "json", "text/x+json"])
def test_a_body_that_is_not_called_json_is_not_read(web: Any, kind: str) -> None:
    assert web.ask("PUT", TOPIC, 2, **{"content-type": kind}).status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_a_body_is_json_by_any_of_its_names(web: Any, kind: str) -> None:
    assert web.ask("PUT", TOPIC, 2, **{"content-type": kind}).status == 204


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"1 2", b"NaN,"])
def test_a_body_that_is_not_json_is_refused(web: Any, body: bytes) -> None:
    assert web.refusal("PUT", TOPIC, body)[0] == 400


def test_an_empty_body_needs_no_name(web: Any) -> None:
    path = "/admin/v2/persistent/public/default/t"
    assert web.ask("PUT", path, b" \r\n", **{"content-type": "text/plain"}).status == 204


@pytest.mark.parametrize(
    ("text", "forced"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("", False)]
)
def test_a_flag_is_on_when_it_says_so(web: Any, text: str, forced: bool) -> None:  # noqa: FBT001 -- parametrised
    web.connect("t")
    answer = web.ask("DELETE", f"/admin/v2/persistent/public/default/t?force={text}")
    assert (answer.status == 204) is forced
