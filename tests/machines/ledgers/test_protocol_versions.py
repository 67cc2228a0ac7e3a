"""Which requests a broker is too old for."""

import pytest
from google.protobuf.message import Message

from pulsar_actors.machines.ledgers.protocol_versions import SINCE, is_too_new
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic


@pytest.mark.parametrize("kind", SINCE)
def test_a_request_is_for_brokers_that_speak_its_version_or_a_later_one(kind: type[Message]) -> None:
    since = SINCE[kind]
    assert [is_too_new(kind(), spoken) for spoken in (since - 1, since, since + 1)] == [True, False, False]


def test_what_every_client_needs_is_for_all_brokers() -> None:
    assert not is_too_new(CommandLookupTopic(), 0)
