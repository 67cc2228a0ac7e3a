"""Running a user's program with a client, and the differences between the clients that are accepted."""

import importlib
import logging
import os
import pickle
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Final, cast

import pulsar_actors
from tests.support.told import Told
from tests.support.user_programs import ENUMS, PROGRAMS

__all__ = ["ACCEPTED", "told_by_official", "told_by_ours"]

ROOT: Final = Path(__file__).parents[2]
OPERATION_SECONDS: Final = 20
CRASHES: Final = 2
"""How often the official client may crash in one program."""
_LOGGER: Final = logging.getLogger("programs of users")
_LOGGER.setLevel(logging.CRITICAL + 1)  # threads of C++ would call into Python


def told_by_ours(name: str, service_url: str) -> Told:
    """Run a program with this package's client."""
    with pulsar_actors.Client(service_url, logger=_LOGGER, operation_timeout_seconds=OPERATION_SECONDS) as client:
        return _told(name, pulsar_actors, client)


def told_by_official(name: str, service_url: str) -> Told:
    """Run a program with the official client, in a process of its own.

    It crashes now and then when it closes a consumer with a dead letter policy, so the process ends without a close,
    and less often with a table view, so a program is run again if a signal has ended it.
    """
    command = [sys.executable, "-m", __name__, name, service_url]
    for _ in range(CRASHES + 1):
        ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False, timeout=120)  # noqa: S603 - our own words
        if ran.returncode >= 0:
            break
    ran.check_returncode()
    return cast("Told", pickle.loads(ran.stdout))  # noqa: S301 - our own


def _told(name: str, pulsar: Any, client: Any) -> Told:
    topic = f"persistent://public/default/{name}-{uuid.uuid4().hex[:8]}"
    tell = Told(topic)
    PROGRAMS[name](pulsar, client, topic, tell)
    return tell


# What the clients tell differently, by program and label, and the words of the documentation that say so.

_WRONG = "a wrong argument raises `InvalidArgument`"
_CLOSED = "closing a second time does nothing"
_SCHEMA_OF_NOTHING = "a schema of no record, and an array or an enum of no type, are refused"
_IDS = "message ids hash, pickle and compare with any value"
_NO_CPLUSPLUS = "Some programs reach for the objects of the C++ client"
_COMPLETE = "objects are complete"
_NO_JSON = "`auth_params_string` that is no JSON is refused"

ACCEPTED: Final[dict[str, dict[str, str]]] = {
    "all_of_a_message": {
        "sequence id after a given one": "the next ids follow that one",
        "{'properties': {'a': 1}}": _WRONG,
        "send bytearray(b'x')": "the content may be any bytes-like object",
    },
    "message_ids": {
        **dict.fromkeys(("deserialize None", "deserialize 5"), _WRONG),
        **dict.fromkeys(("equal to a text", "hash", "copy"), _IDS),
    },
    "readers": {"who is heard": "a listener of a reader gets the `Reader`"},
    "consumers": {
        "close again": _CLOSED,
        "refuse after close": "of a closed consumer raise `AlreadyClosed`",
        "redeliver after close": "of a closed consumer raise `AlreadyClosed`",
    },
    "listeners": {"batch receive with a listener": "`batch_receive` of a consumer with a listener raises"},
    "several_topics": dict.fromkeys(("tuple of topics", "no topics"), "may be any sequence that is not empty"),
    "receiver_queues_of_nothing": {
        "receive with a timeout": "`receive` may have a timeout",
        "several topics": "a consumer of several topics needs a `receiver_queue_size`",
        "less than nothing": _WRONG,
    },
    "schemas": {
        "text of a record": "`str()` of a record shows its fields",
        "JsonSchema bytes": "JSON is compact",
        **dict.fromkeys(("JsonSchema null", "AvroSchema null"), "`value()` of a null payload is None"),
        **dict.fromkeys(("JSON of no record", "array of no field", "enum of no enum"), _SCHEMA_OF_NOTHING),
    },
    "table_views": {"number as key": _WRONG, "close again": _CLOSED},
    "dead_letters": {"properties of a letter": "a dead letter has the properties `REAL_SUBSCRIPTION`"},
    "wrong_options": {
        **dict.fromkeys(("subscribe dead_letter_policy", "producer message_routing_mode"), _WRONG),
        **dict.fromkeys(("subscribe message_listener", "producer message_router"), "that cannot be called is refused"),
        "subscribe unacked_messages_timeout_ms": "may be shorter than ten seconds",
        "empty subscription name": "an empty subscription name is an `InvalidArgument`",
        "URL pulsar://a:0": "the port 0 in a service URL is refused",
    },
    "authentication": dict.fromkeys(("basic of no JSON", "OAuth2 of no JSON"), _NO_JSON),
    "clusters": {"trusted certificates": "`get_service_info().tls_trust_certs_file_path` is None"},
    "enums": {
        **{f"{name} 99": "an enum has no member with an unknown number" for name in ENUMS},
        "ConsumerCryptoFailureAction and numbers": "all enums compare with their numbers",
    },
    "closing": dict.fromkeys(("close again", "close the producer"), _CLOSED),
    "internals": {
        **dict.fromkeys(("_producer", "_consumer", "_message", "_client", "module of C++"), _NO_CPLUSPLUS),
        **dict.fromkeys(("Producer()", "Consumer()"), _COMPLETE),
    },
}


if __name__ == "__main__":
    official = importlib.import_module("pulsar")
    _, name, service_url = sys.argv
    client = official.Client(service_url, logger=_LOGGER, operation_timeout_seconds=OPERATION_SECONDS)
    sys.stdout.buffer.write(pickle.dumps(_told(name, official, client)))
    sys.stdout.flush()
    os._exit(0)
