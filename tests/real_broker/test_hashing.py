"""The partition of a key: ours is the one that each of the other clients chooses, for ten thousand keys."""

import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from tests.real_broker.exchange import Outcomes
from tests.support.admin import Admin
from tests.support.jars import jars, tool
from tests.support.subjects import client_module

KEY_HASHES = Path(__file__).with_name("KeyHashes.java")
PARTITIONS = 97  # a prime, so that every bit of a hash has its say
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz0123456789-_/: ",
    "\u00e4\u00f6\u00fc\u00df\u00e9\u20ac\u65e5\u672c\u8a9e\ua9b0\uffff\ud7ff\ue000",
    "\U00010000\U0001f600\U0001f9d1\U0010ffff",
    "\x01\t\n\x7f\x80\u07ff\u0800",
)


def keys(count: int) -> list[str]:
    """Every length up to 40 in every alphabet and a mixture of all, some long ones, and text of any characters."""
    chance = random.Random(20261122)  # noqa: S311 -- not for secrets
    mixed = "".join(ALPHABETS)
    everything = [chr(number) for number in range(1, 0x110000) if not 0xD800 <= number < 0xE000]
    made = {
        "".join(chance.choices(alphabet, k=length))
        for alphabet in (*ALPHABETS, mixed)
        for length in range(1, 41)
        for _ in range(20)
    }
    made |= {"".join(chance.choices(mixed, k=length)) for length in (255, 1000, 4096, 10_000)}
    while len(made) < count:
        made.add("".join(chance.choices(everything, k=chance.randint(1, 40))))
    return sorted(made)[:count]


KEYS = keys(10_000)


def hashes_of_java(wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Ask the Java client's own classes."""
    lines = "".join(f"{key.encode('utf-16-be').hex()}\n" for key in wanted)
    needed = [jar for jar in jars().iterdir() if re.match("pulsar-c|guava", jar.name)]  # all take seconds to read
    classes = os.pathsep.join(map(str, needed))
    command = [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", classes, str(KEY_HASHES)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)  # noqa: S603 -- our own words
    pairs = [line.split() for line in done.stdout.splitlines()]
    return [(int(string), int(murmur)) for string, murmur in pairs]


@pytest.mark.real_broker
def test_java_and_we_make_the_same_of_ten_thousand_keys() -> None:
    asked = ["", *KEYS]
    ours = [(HASHES[HashName.JAVA_STRING](key), HASHES[HashName.MURMUR3_32](key)) for key in asked]
    assert ours == hashes_of_java(asked)


def test_the_official_client_and_we_send_ten_thousand_keys_to_the_same_partitions(
    connect: Any, topic: str, admin: Admin
) -> None:
    admin.create_partitioned(topic, PARTITIONS)
    producer = connect(client_module("official")).create_producer(
        topic, lazy_start_partitioned_producers=True, batching_enabled=True, block_if_queue_full=True
    )
    outcomes = Outcomes()

    def noted(key: str) -> Callable[[Any, Any], None]:
        return lambda result, message_id: outcomes(result, (key, message_id))

    for key in KEYS:
        producer.send_async(b"", noted(key), partition_key=key)
    producer.flush()
    chosen = {key: message_id.partition() for key, message_id in outcomes.ids(len(KEYS))}
    assert chosen == {key: HASHES[HashName.BOOST](key) % PARTITIONS for key in KEYS}
