from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.message_routing import (
    HASHES,
    CustomRouting,
    HashName,
    RoundRobin,
    SinglePartition,
    boost_64,
    java_string_hash,
    murmur3_32,
)

BOOST = HASHES[HashName.BOOST]
LIMITS = BatchLimits(messages=3, size=100, delay=1.0)


@given(st.text(max_size=5), st.integers(1, 20), st.integers(1, 20))
def test_a_key_decides_in_every_mode_and_follows_growth(key: str, partitions: int, more: int) -> None:
    for router in (SinglePartition(BOOST, lambda: 0.5), RoundRobin(BOOST, lambda: 0.5, LIMITS)):
        for count in (partitions, partitions + more):
            assert router.route(key, 1, count, 0.0) == BOOST(key) % count


def test_a_single_partition_is_chosen_by_chance_and_kept_while_the_topic_grows() -> None:
    router = SinglePartition(BOOST, lambda: 0.99)
    assert [router.route(None, 1, partitions, 0.0) for partitions in (4, 4, 8)] == [3, 3, 3]


def test_without_batching_each_message_goes_one_further() -> None:
    router = RoundRobin(BOOST, lambda: 0.5, None)
    assert [router.route(None, 1, 4, 0.0) for _ in range(6)] == [2, 3, 0, 1, 2, 3]


def test_round_robin_moves_on_when_the_batch_has_its_messages() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 1, 2, 0.0) for _ in range(8)] == [0, 0, 0, 1, 1, 1, 0, 0]


def test_round_robin_moves_on_when_the_next_message_would_pass_the_byte_limit() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 60, 3, 0.0) for _ in range(3)] == [0, 1, 2]
    assert router.route(None, 40, 3, 0.0) == 2


def test_round_robin_moves_on_when_the_delay_is_over() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, LIMITS)
    assert [router.route(None, 1, 3, now) for now in (5.0, 5.9, 6.0, 6.9, 7.0)] == [0, 0, 1, 1, 2]


def test_messages_with_a_key_do_not_move_the_round() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, None)
    assert [router.route(key, 1, 3, 0.0) for key in (None, "k", None)] == [0, BOOST("k") % 3, 1]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40),
    st.integers(1, 5),
    st.sampled_from([LIMITS, LIMITS._replace(delay=0.0), None]),
    st.data(),
)
def test_many_in_runs_go_where_each_would_go_alone(
    sizes: list[int], partitions: int, limits: BatchLimits | None, data: st.DataObject
) -> None:
    in_runs, alone = (RoundRobin(BOOST, lambda: 0.5, limits) for _ in range(2))
    routes: list[int] = []
    while len(routes) < len(sizes):
        some = sizes[len(routes) : len(routes) + data.draw(st.integers(1, 9))]
        partition, run = in_runs.route_run(some, partitions, 0.0)
        assert 1 <= run <= len(some)
        routes += [partition] * run
    assert routes == [alone.route(None, size, partitions, 0.0) for size in sizes]


def test_many_without_a_key_go_to_the_single_partition() -> None:
    router = SinglePartition(BOOST, lambda: 0.5)
    assert router.route_run([1, 2, 3], 4, 0.0) == (2, 3)
    assert router.route(None, 1, 4, 0.0) == 2


def test_new_partitions_join_the_round() -> None:
    router = RoundRobin(BOOST, lambda: 0.0, None)
    assert [router.route(None, 1, 2, 0.0) for _ in range(2)] == [0, 1]
    assert [router.route(None, 1, 4, 0.0) for _ in range(4)] == [2, 3, 0, 1]


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_whole_rounds_load_every_partition_alike(partitions: int, rounds: int, chance: float) -> None:
    router = RoundRobin(BOOST, lambda: chance, LIMITS)
    counts = Counter(router.route(None, 1, partitions, 0.0) for _ in range(3 * partitions * rounds))
    assert counts == dict.fromkeys(range(partitions), 3 * rounds)


def test_a_routers_own_choice_is_taken() -> None:
    router = CustomRouting[str](lambda message, partitions: len(message) % partitions)
    assert router.route("four+", 4) == 1


@pytest.mark.parametrize("answer", [-1, 4, 1.0, None, "1"])
def test_a_choice_outside_the_partitions_is_refused_by_value(answer: int) -> None:
    router = CustomRouting[str](lambda _message, _partitions: answer)
    with pytest.raises(InvalidArgument, match=f"got {answer!r}"):
        router.route("m", 4)


# `String.hashCode()` of Java 17.
JAVA_17 = {
    "": 0,
    "a": 97,
    "key1": 3288498,
    "pulsar": -977119363,
    "hello world": 1794106052,
    "\u00fc": 252,
    "\u65e5\u672c\u8a9e": 25921943,
    "\U0001f600": 1772899,
    "\U0001f600key": 1276932636,
    "polygenelubricants": -2147483648,
    "na\u00efve": 104710475,
    "persistent://public/default/t": 2131568547,
    "AaBB": 2031744,
    "zzzzzzzzzzzzzzzzzzzz": 1718487168,
}

# Published vectors of MurmurHash3_x86_32 with seed 0.
MURMUR3 = {
    b"": 0x00000000,
    b"test": 0xBA6BD213,
    b"Hello, world!": 0xC0363E43,
    b"The quick brown fox jumps over the lazy dog": 0x2E4FF723,
    b"\xff\xff\xff\xff": 0x76293B50,
    b"\x21\x43\x65\x87": 0xF55B516B,
    b"\x21\x43\x65": 0x7E4A8634,
    b"\x21\x43": 0xA0F7B07A,
    b"\x21": 0x72661CF4,
    b"\x00\x00\x00\x00": 0x2362F9DE,
    b"\x00\x00\x00": 0x85F0B427,
    b"\x00\x00": 0x30F4C306,
    b"\x00": 0x514E28B7,
}

# The partition, out of 997, to which the official Python client sent each key.
OFFICIAL_997 = {
    "key1": 103,
    "a": 639,
    "ab": 591,
    "abc": 599,
    "abcd": 925,
    "abcde": 147,
    "\u00fc": 355,
    "\u00e9\u20ac": 277,
    "\u65e5\u672c\u8a9e": 400,
    "\U0001f600": 39,
    "\U0001f600key": 472,
    "pulsar": 36,
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": 528,
    "na\u00efve-na\u00efve-na\u00efve-na\u00efve-na\u00efve-na\u00efve-na\u00efve-": 569,
    "\u20ac": 326,
    "qw": 679,
    "7b3": 677,
    "pdkh": 969,
    "x4py8": 793,
    "g-pan0": 162,
    "rlykei\u20ac": 556,
    "\u20ac2iiaann": 47,
    "kksum8\U0001f600nl": 8,
    "mytbx0kjqe": 488,
    "vt\u00df\u00e4a\u00dfvetwt": 392,
    "4ul44ldqbwzb": 653,
    "90xy\u00e4a2cl\u20acmhp": 595,
    "3w6w7q3g\u00e4xsc1f": 296,
    "nv6\u20acxjvr8ftutlf": 550,
    "\U0001f600jt4kdf\u00df8zcp\u00dfwq3": 515,
    "0jd\U0001f600c5vni-i\U0001f6000gk1x": 567,
    "jd0sj3\u20ack735u4rs4zj": 58,
    "hy8l\U0001f6005vlf5r696xew\u00e4c": 503,
    "tx9r5qsvl\u00e4a49qur3s6w": 927,
    "wrw0wl2xv7j7kmx4sf0k\u20ac": 58,
    "\u00e470t\u20ac9\U0001f600rbmk\u00e42\u20aclol\U0001f600c4ok": 323,
    "dihul4m9c03wy\u20ace\u00e4npxawzr": 578,
    "0h9xc9\u20actgs86v\u00e4swi00-8x3j": 854,
    "k\u00dfy-4mi\u00dffwaygu-\u20ac8ju\U0001f600-y11o": 615,
    "5s4yyk\u00df\u00dfqt5q0but5sj4bh\u20ac2ps": 172,
    "ciza489rp4cp5rjss5\u00df47\u00dfhbits": 381,
    "8v\u20acs7b3wx\u00e4icaq93g8ma11\u00df-\U0001f6004y4": 743,
    "zms3eta1\u00e4s4tjk495v8j1\u00e48deorfe": 547,
    "bv1ez5dhho\u20achis2jl\u20acl0ke\u20acnc9gyer": 557,
    "d--hz\u20acia1fu\u00df55wxdisj-\U0001f6006s99\u20acoqe9": 366,
    "pqs7ipx3ylibvf-cfh6\u00df3py34ug7b8yd": 414,
    "j1ohf5ni\u20acywpsv\u20acwyyiws\U0001f6001x7c\u00e4-nlzeg": 913,
    "cclmmc54wa14t\u20ac1u33gmjkexy4j9qhrksp": 78,
    "c4cwxudb34jhus3pkcmb-of\u20aczxtl3xse3kp": 914,
    "lnc\u00df1ra3d20kcc97-wgep5f4dpd5zddq02t\U0001f600": 61,
    "dcml6\U0001f600zm8ofugf8k\u00dfen\u20acb28w51-y7\U0001f600iat2o9h": 947,
    "it4fqzuii8f4pf1-prd5pdmsxge0uy9asi-b2j": 298,
    "bd1rgy9iuetkiq5usce89bbhdiw1q\u20acbo71ixmvw": 777,
    "ak\u00e4\u20ackgr7\u00dfk\U0001f600j211hvu2o3\u00df1k2dk845\u00dfagi0dnac-": 721,
}


@pytest.mark.parametrize(("key", "signed"), JAVA_17.items())
def test_java_string_hash_is_javas_without_the_sign(key: str, signed: int) -> None:
    assert java_string_hash(key) == signed & 0x7FFFFFFF


@pytest.mark.parametrize(("data", "expected"), MURMUR3.items())
def test_murmur3_gives_the_published_vectors(data: bytes, expected: int) -> None:
    assert murmur3_32(data) == expected


@pytest.mark.parametrize(("key", "partition"), OFFICIAL_997.items())
def test_boost_sends_a_key_where_the_official_client_sends_it(key: str, partition: int) -> None:
    assert HASHES[HashName.BOOST](key) % 997 == partition


def test_boost_of_key1_is_the_value_observed_in_full() -> None:
    assert HASHES[HashName.BOOST]("key1") == 2071103098


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_hash_fits_31_bits(key: str) -> None:
    for key_hash in HASHES.values():
        assert 0 <= key_hash(key) < 2**31


@given(st.binary())
def test_the_full_hashes_fit_their_words(data: bytes) -> None:
    assert 0 <= murmur3_32(data) < 2**32
    assert 0 <= boost_64(data) < 2**64


def test_every_scheme_has_its_hash() -> None:
    assert set(HASHES) == set(HashName)
    assert HASHES[HashName.MURMUR3_32]("test") == 0xBA6BD213 & 0x7FFFFFFF
    assert HASHES[HashName.JAVA_STRING]("key1") == 3288498


@pytest.mark.parametrize("scheme", HashName)
def test_half_a_character_is_refused(scheme: HashName) -> None:
    with pytest.raises(InvalidArgument, match="Unicode text"):
        HASHES[scheme]("\ud800")
