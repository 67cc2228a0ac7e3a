"""The conversation of `conversation.py` with the embedded broker: it answers as the real one did, once."""

import json
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.broker.web.conversation import STEPS, Ask, converse

RECORDED = [json.loads(line) for line in Path(__file__).with_name("answers.jsonl").read_text().splitlines()]
REQUESTS = [step for step in STEPS if isinstance(step, Ask)]

DIFFERENT = {
    "a request that makes no sense is the client's fault, where Pulsar trips over it": {
        "GET {S1}/subscription/s3/position/0": 400,
        "POST {S1}/subscription/s3/resetcursor ": 400,
        "GET {SCHEMAS}/s1/schema/abc": 404,
        'POST {SCHEMAS}/sd/schema {"type": "FOO", "schema": "", "properties": {}}': 422,
        "POST {SCHEMAS}/sd/schema ": 400,
        "POST {NP}/subscription/s/skip_all": 405,
        "PUT {TOPICS}/b%ff": 400,
    },
    "nothing is made by looking at it, where Pulsar makes the subscription": {
        "GET {S1}/subscription/u1/position/1": 404,
    },
    "an expiry that finds nothing to expire has done what was asked": {
        "POST {S1}/all_subscription/expireMessages/1000000": 204,
        "POST {TOPICS}/p1/subscription/sp/expireMessages/1000000": 204,
    },
}
PLACES = {
    "{S1}": "/admin/v2/persistent/public/default/s1",
    "{TOPICS}": "/admin/v2/persistent/public/default",
    "{SCHEMAS}": "/admin/v2/schemas/public/default",
    "{NP}": "/admin/v2/non-persistent/public/default/np",
}


def place(text: str) -> str:
    for name, path in PLACES.items():
        text = text.replace(name, path)
    return text


OURS = {place(text): status for cases in DIFFERENT.values() for text, status in cases.items()}


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    with EmbeddedBroker() as broker:
        return converse(int(broker.web_url.rpartition(":")[2]), broker.service_url)


def test_the_recording_is_of_this_conversation() -> None:
    assert [line["ask"] for line in RECORDED] == [str(step) for step in REQUESTS]
    assert OURS.keys() <= {str(step) for step in REQUESTS}


@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=[f"{i}-{step}" for i, step in enumerate(REQUESTS)])
def test_the_embedded_broker_answers_as_the_real_one(number: int, answers: list[dict[str, Any]]) -> None:
    real, ours = RECORDED[number], answers[number]
    if real["ask"] in OURS:
        assert ours["status"] == OURS[real["ask"]]
    else:
        assert without_ledgers_of_schemas(ours) == without_ledgers_of_schemas(real)


def without_ledgers_of_schemas(value: Any) -> Any:
    """The embedded broker keeps no schemas in ledgers, so it lists none."""
    if isinstance(value, dict):
        return {name: without_ledgers_of_schemas(each) for name, each in value.items() if name != "schemaLedgers"}
    return value
