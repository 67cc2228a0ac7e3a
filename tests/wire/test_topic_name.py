import pickle
from typing import Any
from urllib.parse import quote_plus, unquote, urljoin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.wire.topic_name import TopicName

# The verdicts of the other clients, asked one by one: `TopicName` of the Java client 4.0.4 (its parts and its
# partition index are the ones below), and `get_topic_partitions` of the official Python client 3.13.0, which either
# refuses the name at once or goes looking for a broker.
# What was asked, (domain, tenant, cluster, namespace, local name), partition index.
ACCEPTED_BY_BOTH: list[tuple[str, tuple[str | None, ...], int]] = [
    ("a/b/topic", ("persistent", "a", None, "b", "topic"), -1),
    ("persistent://public/default/topic", ("persistent", "public", None, "default", "topic"), -1),
    ("non-persistent://public/default/topic", ("non-persistent", "public", None, "default", "topic"), -1),
    ("persistent://t/c/n/topic", ("persistent", "t", "c", "n", "topic"), -1),
    ("non-persistent://t/c/n/topic", ("non-persistent", "t", "c", "n", "topic"), -1),
    ("persistent://t/c/n/a/b", ("persistent", "t", "c", "n", "a/b"), -1),
    ("persistent://t/c/n/a//b", ("persistent", "t", "c", "n", "a//b"), -1),
    ("t-=:._1/n-=:._1/x", ("persistent", "t-=:._1", None, "n-=:._1", "x"), -1),
    ("persistent://t/c/n/x!", ("persistent", "t", "c", "n", "x!"), -1),
    ("persistent://t/n/a://b", ("persistent", "t", "n", "a:", "/b"), -1),
    ("persistent://t/c/n/a://b", ("persistent", "t", "c", "n", "a://b"), -1),
    ("persistent://t/c/n/x-partition-3", ("persistent", "t", "c", "n", "x-partition-3"), 3),
    ("persistent://t/c/n/a-partition-1/b", ("persistent", "t", "c", "n", "a-partition-1/b"), -1),
    ("persistent://t/c/n/a/b-partition-1", ("persistent", "t", "c", "n", "a/b-partition-1"), 1),
    ("non-persistent://t/n/x-partition-3", ("non-persistent", "t", None, "n", "x-partition-3"), 3),
    ("x-partition-1/y/z", ("persistent", "x-partition-1", None, "y", "z"), -1),
]
# Names of the topics public/default/NAME, and of the topics t/n/NAME.
LOCAL_NAMES = [
    *(("topic", -1), ("a b", -1), ("a\nb", -1), ("a\x00b", -1), ("\U0001f600", -1), ("..", -1)),
    *(("x-partition-0", 0), ("x-partition-1", 1), ("x-partition-10", 10), ("x-partition-01", -1)),
    *(("x-partition-00", -1), ("x-partition--1", -1), ("x-partition-+1", -1), ("x-partition-", -1)),
    *(("x-partition-a", -1), ("x-partition-1a", -1), ("x-partition-1-partition-2", 2)),
    *(("x-partition-1-partition-a", -1), ("x-partition-a-partition-1", 1), ("x-partition-2147483647", 2147483647)),
    *(("x-partition-2147483648", -1), ("x-partition-99999999999999999999", -1), ("x-partition- 1", -1)),
    *(("x-partition-1 ", -1), ("x-Partition-1", -1), ("x-partition-1-RETRY", -1), ("x-sub-DLQ", -1)),
    ("partition-1", -1),
]
LOCAL_NAMES_IN_T_N = [
    *("\u200b", "\xe9", "\u65e5\u672c", "a b", "a%20b", "a+b", "a?b#c&d=e", "~*'()!$,;:@[]", "a\\b", ".."),
]
ACCEPTED_BY_BOTH += [(name, ("persistent", "public", None, "default", name), index) for name, index in LOCAL_NAMES]
ACCEPTED_BY_BOTH += [(f"t/n/{name}", ("persistent", "t", None, "n", name), -1) for name in LOCAL_NAMES_IN_T_N]
REFUSED = """
    persistent://t/c/n/ persistent://t/n/ persistent://t//x persistent:///n/x persistent://t//n/x
    persistent://t/c//x persistent:///c/n/x persistent://t/x persistent://x persistent:// ://x ://t/n/x
    other://t/n/x / // a/b a/b/c/d a//b/c a/b/ /a/b/c a/b/c/ t+/n/x t/n@/x t%20/n/x persistent://t/c!/n/x
    persistent://t/c/n!/x t/n/a://b a://b://c
"""
REFUSED_BY_BOTH = [*REFUSED.split(), "", "t /n/x", " t/n/x", "t/n /x", "t\xe9/n/x", "t/\xe9/x"]
# Accepted by both, refused here: what there is in an address of such a namespace is another one.
REFUSED_BY_US = ["./x/y", "t/./x", "../../x", "persistent://a/../x", "persistent://a/b/../../c", "persistent://a/./b/c"]
REFUSED_BY_ONE = [
    "PERSISTENT://t/n/x",
    "Persistent://t/n/x",
    "/topic",
    "topic/",
    "//topic",
    " ",
    "   ",
    "\t",
    "\n",
    "t/n/ ",
    "t/n/\u2003",
    "t/n/\u2028",
    "t/n/\x1c",
]


@pytest.mark.shows("Property and namespace", "cluster")
@pytest.mark.parametrize(("text", "parts", "partition"), ACCEPTED_BY_BOTH)
def test_a_name_that_both_clients_accept_has_the_parts_that_java_gives(
    text: str, parts: tuple[str | None, ...], partition: int
) -> None:
    name = TopicName.parse(text)
    assert name[:] == parts
    assert name.partition_index == partition


@pytest.mark.parametrize("text", REFUSED_BY_BOTH + REFUSED_BY_ONE + REFUSED_BY_US)
def test_a_name_that_is_refused_is_refused_with_the_forms_that_are_allowed(text: str) -> None:
    with pytest.raises(
        InvalidTopicName, match=r"is not the name of a topic, for .*; write topic, tenant/namespace/topic"
    ) as caught:
        TopicName.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", [b"t/n/x", None, 5, ["t"]])
def test_what_is_no_text_is_no_name(text: Any) -> None:
    with pytest.raises(InvalidTopicName, match=f"it is of type {type(text).__name__}"):
        TopicName.parse(text)


LONG = "a" * 1_000_000


@pytest.mark.parametrize(
    "text",
    [LONG + "/b" * 7, f"{LONG}://a/b/c", f"t/{LONG}+/x", f"t/n/{LONG}\ud800", f"t/n/{' ' * 1_000_000}", LONG.encode()],
    ids=["parts", "domain", "namespace", "surrogate", "blank", "bytes"],
)
def test_a_refused_name_of_a_megabyte_makes_no_long_text(text: Any) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        TopicName.parse(text)
    assert len(str(caught.value)) < 600


def test_nor_does_a_name_that_is_refused_later() -> None:
    name = TopicName.parse(f"{LONG}-partition-1")
    with pytest.raises(InvalidTopicName, match="is a partition already") as caught:
        name.partition(1)
    assert len(str(caught.value)) < 300
    with pytest.raises(InvalidTopicName, match="has no HTTP address") as caught:
        TopicName.parse(f"persistent://t/c/n/{LONG}/..").rest_path  # noqa: B018 - reading it is what must fail
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["..", ".", "t/n/..", "persistent://t/c/n/a/../b", "persistent://t/c/n/./b"])
def test_a_topic_whose_name_would_walk_about_in_an_address_has_none(text: str) -> None:
    name = TopicName.parse(text)
    assert TopicName.parse(str(name)) == name
    with pytest.raises(InvalidTopicName, match="has no HTTP address"):
        name.rest_path  # noqa: B018 - reading it is what must fail
    with pytest.raises(InvalidTopicName, match="has no HTTP address"):
        name.encoded_local_name  # noqa: B018 - the same


@pytest.mark.parametrize("text", ["...", "a..b", ".a", "t/n/..a", "t.../n./x", "persistent://t/c/n/a/.../b"])
def test_dots_beside_anything_else_are_letters(text: str) -> None:
    path = TopicName.parse(text).rest_path
    assert urljoin("http://h/", f"/{path}/partitions") == f"http://h/{path}/partitions"


@pytest.mark.parametrize("text", ["t/n/\xa0", "t/n/\x85", "\u2007"])
def test_a_name_that_python_calls_blank_is_refused(text: str) -> None:
    with pytest.raises(InvalidTopicName, match="blank"):
        TopicName.parse(text)


@pytest.mark.parametrize(
    "text", ["-partition-1", " -partition-1", "x-partition-\u0661", "x-partition-1\n", "x-partition-\xb2"]
)
def test_an_ending_that_only_looks_like_a_partition_is_part_of_the_name(text: str) -> None:
    name = TopicName.parse(text)
    assert name.partition_index == -1
    assert name.base is name


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidTopicName, match="UTF-8"):
        TopicName.parse("t/n/a\ud800b")


owners = st.from_regex(r"[-=:.\w]+", fullmatch=True, alphabet=st.characters(codec="ascii")).filter(
    lambda text: text not in {".", ".."}
)
v2_locals = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(lambda text: text.strip())
v1_locals = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.strip())
domains = st.sampled_from(["persistent", "non-persistent"])
names = st.builds(TopicName, domains, owners, st.none(), owners, v2_locals) | st.builds(
    TopicName, domains, owners, owners, owners, v1_locals
)


@given(names)
def test_a_complete_name_reads_back_as_its_parts(name: TopicName) -> None:
    assert TopicName.parse(str(name)) == name
    assert pickle.loads(pickle.dumps(name)) == name  # noqa: S301 - pickled on the same line


@given(st.text() | st.text(alphabet="pt:/-. ") | st.text(alphabet="a/:").map("persistent://".__add__))
@example("persistent://" + "/" * 9)
def test_any_text_is_a_name_that_reads_back_or_is_refused(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except InvalidTopicName:
        return
    assert TopicName.parse(str(name)) == name
    str(name).encode()


@given(names.filter(lambda name: name.partition_index == -1), st.integers(0, 2**31 - 1))
def test_a_partition_knows_its_index_and_its_topic(name: TopicName, index: int) -> None:
    partition = name.partition(index)
    assert str(partition) == f"{name}-partition-{index}"
    assert TopicName.parse(str(partition)).partition_index == index
    assert partition.base == name


@pytest.mark.parametrize("index", [-1, 2**31, True, False, 1.0, "1", None])
def test_a_partition_number_that_no_broker_gives_is_refused(index: Any) -> None:
    with pytest.raises(InvalidTopicName, match=f"from 0 to 2147483647, not {index!r}"):
        TopicName.parse("x").partition(index)


def test_a_partition_has_no_partitions() -> None:
    with pytest.raises(InvalidTopicName, match="-1' is a partition already"):
        TopicName.parse("x-partition-1").partition(0)


@pytest.mark.parametrize(
    ("text", "complete", "namespace", "path"),
    [
        ("x", "persistent://public/default/x", "public/default", "persistent/public/default/x"),
        ("t/n/a b", "persistent://t/n/a b", "t/n", "persistent/t/n/a%20b"),
        ("non-persistent://t/n/x?y#z", "non-persistent://t/n/x?y#z", "t/n", "non-persistent/t/n/x%3Fy%23z"),
        ("persistent://t/c/n/a/b", "persistent://t/c/n/a/b", "t/c/n", "persistent/t/c/n/a%2Fb"),
    ],
)
def test_the_texts_a_lookup_is_made_of(text: str, complete: str, namespace: str, path: str) -> None:
    name = TopicName.parse(text)
    assert (str(name), name.namespace_name, name.rest_path) == (complete, namespace, path)
    assert name.is_persistent == complete.startswith("persistent")


@given(v1_locals.filter(lambda text: not {".", ".."} & set(text.split("/"))))
def test_the_encoded_name_is_one_segment_that_decodes_to_the_name(local_name: str) -> None:
    encoded = TopicName("persistent", "t", "c", "n", local_name).encoded_local_name
    assert unquote(encoded) == local_name
    assert not set(encoded) & set("/?#&+ ")
    # What Java's URLEncoder writes, but for the blank, which it writes as a form would, and ~ and *, free in a path.
    assert encoded == quote_plus(local_name).replace("+", "%20")
