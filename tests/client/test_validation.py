from dataclasses import dataclass
from typing import Any

import pytest

from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.validation import (
    LARGEST_TEXTS,
    Check,
    callback,
    check_fields,
    check_size,
    flag,
    instance_of,
    optional,
    properties,
    seconds,
    text,
    topic,
    whole_number,
)
from pulsar_actors.exceptions import InvalidArgument, InvalidTopicName

CASES: list[tuple[Check, list[Any], list[Any], str]] = [
    (text, ["a", "grün"], ["", None, 5, b"a", "\ud800"], "a str of Unicode text that is not empty"),
    (flag, [True, False], [1, 0, None, "True"], "True or False"),
    (whole_number(0), [0, 7, 2**31 - 1], [-1, 2**31, 1.0, "1", None, True], "a whole number from 0 to 2,147,483,647"),
    (whole_number(1, 9), [1, 9], [0, 10, ConsumerType.Shared, 10**5000], "a whole number from 1 to 9"),
    (seconds(0), [0, 0.5, 30, 10**9], [-1, float("nan"), float("inf"), True, "1"], "seconds, from 0 to 1,000,000,000"),
    (
        instance_of(InitialPosition),
        [InitialPosition.Latest],
        [0, "Latest", None, ConsumerType.Exclusive],
        "an InitialPosition, one of Latest, Earliest",
    ),
    (instance_of(dict), [{}], [[], None], "a dict"),
    (callback("a message"), [print, lambda: 0], [5, None, "print"], "a callable that is given a message"),
    (topic, ["t", "persistent://a/b/c"], [5, None, b"t"], "a topic's name, a str"),
    (properties, [{}, {"a": "b"}], [[("a", "b")], "a", 5], "a dict of str to str"),
]


@pytest.mark.parametrize(("check", "good", "bad", "takes"), CASES)
def test_a_check_keeps_what_is_right_and_says_what_it_takes_of_what_is_wrong(
    check: Check, good: list[Any], bad: list[Any], takes: str
) -> None:
    for value in good:
        assert check("it", value) == value
    for value in bad:
        with pytest.raises(InvalidArgument) as refused:
            check("it", value)
        assert str(refused.value).startswith(f"it takes {takes}, got ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("5", "'5'"),
        (None, "None"),
        (10**5000, "a number of 16,610 bits"),
        (b"x" * 10**6, "b'xxx"),
        (ConsumerType.Shared, "ConsumerType.Shared"),
        (object(), "an object of type object"),
        (dict, "the class dict"),
        (["secret"], "an object of type list"),
    ],
    ids=range(8),  # pytest would write the number out
)
def test_an_error_shows_plain_values_shortly_and_of_others_the_type(value: Any, shown: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        whole_number(0, 1)("it", value)
    got = str(refused.value).partition(", got ")[2]
    assert got.startswith(shown)
    assert len(got) < 200


def test_a_wrong_topic_is_an_invalid_topic_name() -> None:
    with pytest.raises(InvalidTopicName):
        topic("topic", "a/b")


@pytest.mark.parametrize("nothing", [None, ""])
def test_what_is_optional_may_be_none_and_an_empty_text_is_none(nothing: Any) -> None:
    assert optional(text)("it", nothing) is None


def test_what_is_optional_is_checked_where_it_is_given() -> None:
    assert optional(whole_number(0))("it", 0) == 0
    with pytest.raises(InvalidArgument):
        optional(whole_number(0))("it", -1)


@pytest.mark.parametrize(
    ("given", "text_of_error"),
    [
        ({5: "b"}, "a key of properties takes Unicode text, got 5"),
        ({"\ud800": "b"}, "a key of properties takes Unicode text, got '\\ud800'"),
        ({"a": 5}, "properties['a'] takes Unicode text, got 5"),
        ({"a": None}, "properties['a'] takes Unicode text, got None"),
    ],
)
def test_a_property_that_is_no_text_is_named(given: Any, text_of_error: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        properties("properties", given)
    assert str(refused.value) == text_of_error


def test_properties_are_a_copy_and_none_is_an_empty_one() -> None:
    given = {"a": "b"}
    kept = properties("properties", given)
    given["a"] = "changed"
    assert kept == {"a": "b"}
    assert properties("properties", None) == {}


@dataclass(frozen=True, slots=True)
class Texts:
    name: object = None
    names: object = ()
    pairs: object = None


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (Texts("x" * LARGEST_TEXTS), ""),
        (Texts(names=("x" * LARGEST_TEXTS,) * 3, pairs={}), ""),
        (Texts("x" * (LARGEST_TEXTS + 1)), "name takes no more than 5,242,880 bytes as UTF-8, got 5,242,881"),
        (
            Texts("x", ("x", "yy" * 9), {"x" * 600: "y" * (LARGEST_TEXTS - 600)}),
            "pairs takes no more than 5,242,880 bytes as UTF-8, got 5,242,896, 5,242,915 together with the others",
        ),
    ],
    ids=["one", "each of several", "too long", "too long together"],
)
def test_texts_that_no_broker_takes_are_refused_by_the_name_of_the_longest(given: Texts, wrong: str) -> None:
    names = ("name", "names", "pairs")
    if not wrong:
        check_size(given, *names)
        return
    with pytest.raises(InvalidArgument) as refused:
        check_size(given, *names)
    assert str(refused.value) == wrong


@dataclass(frozen=True, slots=True)
class Options:
    name: str | None
    size: int

    def __post_init__(self) -> None:
        check_fields(self, {"name": optional(text), "size": whole_number(1)})


def test_the_fields_of_a_frozen_dataclass_are_checked_and_tidied() -> None:
    options = Options("", 5)
    assert (options.name, options.size) == (None, 5)
    with pytest.raises(InvalidArgument, match="size takes"):
        Options("a", 0)
