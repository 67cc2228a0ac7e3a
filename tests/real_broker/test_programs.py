"""Programs of users of the official client, on an Apache Pulsar."""

import pytest

from tests.support.programs_run import ACCEPTED, told_by_official, told_by_ours
from tests.support.subjects import Broker
from tests.support.told import differing
from tests.support.user_programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_tells_the_same_with_both_clients_but_for_what_is_listed(name: str, real_broker: Broker) -> None:
    url = real_broker.service_url
    found = differing(told_by_official(name, url), told_by_ours(name, url))
    assert found.keys() == ACCEPTED.get(name, {}).keys(), found
