import itertools
from pathlib import Path

import pytest

from pulsar_actors.cli.perf.contents import Content, Keys, contents, from_file, letters


def first(count: int, keys: Keys, properties: dict[str, str] | None = None) -> list[Content]:
    return list(itertools.islice(contents([b"a", b"b"], keys, properties or {}), count))


@pytest.mark.parametrize("size", [0, 1, 100, 70_000])
def test_a_payload_has_its_size_and_is_the_same_in_each_run(size: int) -> None:
    assert len(letters(size)) == size
    assert letters(size) == letters(size)


def test_payloads_of_a_file_are_what_is_between_delimiters(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_bytes(b"one\ntwo\n\nthree \xff\n")
    assert from_file(file, r"\n") == [b"one", b"two", b"three \xff"]
    file.write_bytes(b"one;two")
    assert from_file(file, ";") == [b"one", b"two"]


def test_a_file_without_payloads_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nothing"
    file.write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="nothing has no payload"):
        from_file(file, r"\n")


def test_payloads_come_in_turn_and_by_themselves() -> None:
    assert first(3, Keys.none) == [(b"a", {}), (b"b", {}), (b"a", {})]


def test_keys_are_counted_up() -> None:
    assert [fields["partition_key"] for _, fields in first(3, Keys.increment)] == ["0", "1", "2"]


def test_keys_at_random_come_again() -> None:
    keys = [fields["partition_key"] for _, fields in first(30_000, Keys.random)]
    assert 9_000 < len(set(keys)) <= 10_000


def test_properties_are_those_of_each_message() -> None:
    assert first(2, Keys.none, {"x": "1"}) == [(b"a", {"properties": {"x": "1"}}), (b"b", {"properties": {"x": "1"}})]
