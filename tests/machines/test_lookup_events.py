import pytest

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.machines.lookup_events import (
    BrokerRoute,
    is_broker_address,
    is_broker_name,
    route_to_broker,
    usable_address,
)
from pulsar_actors.wire.service_url import ServiceUrl


@pytest.mark.parametrize(
    ("address", "in_plain", "with_tls"),
    [
        ("pulsar://b:6650", True, False),
        ("pulsar+ssl://b:6651", False, True),
        ("PULSAR+SSL://[::1]", False, True),
        ("http://b:8080", False, False),
        ("https://b:8443", False, False),
        ("b:6650", False, False),
        ("pulsar://", False, False),
        ("", False, False),
    ],
)
def test_only_an_address_of_the_wanted_scheme_counts(address: str, in_plain: bool, with_tls: bool) -> None:  # noqa: FBT001 - columns
    assert is_broker_address(address, tls=False) == in_plain
    assert is_broker_address(address, tls=True) == with_tls


def test_a_proxy_may_name_a_broker_by_either_scheme_but_no_other() -> None:
    named = ("pulsar://b", "pulsar+ssl://b", "http://b", "b:6650", "")
    assert [is_broker_name(each) for each in named] == [True, True, False, False, False]


def test_of_two_addresses_the_one_of_the_wanted_kind_counts() -> None:
    both = ("pulsar://b", "pulsar+ssl://b")
    assert [usable_address(*both, tls=tls) for tls in (False, True)] == ["pulsar://b", "pulsar+ssl://b"]


def test_an_address_of_the_other_kind_in_its_place_is_none() -> None:
    assert usable_address("pulsar+ssl://b", "pulsar://b", tls=True) == ""
    assert usable_address("pulsar+ssl://b", "pulsar://b", tls=False) == ""


SERVICE = ServiceUrl.parse("pulsar+ssl://a,b:7000")


@pytest.mark.parametrize(
    ("logical", "physical", "dial", "behind"),
    [
        pytest.param(None, None, "pulsar+ssl://a:6651,b:7000", None, id="any host of the service URL"),
        pytest.param("pulsar://c", "pulsar://c", "pulsar://c:6650", None, id="the address"),
        pytest.param("pulsar://c", "pulsar://d:1", "pulsar://d:1", None, id="the address and not the name"),
        pytest.param("pulsar+ssl://c:9", None, "pulsar+ssl://a:6651,b:7000", "c:9", id="a proxy is told the name"),
        pytest.param("pulsar+ssl://[::1]", None, "pulsar+ssl://a:6651,b:7000", "[::1]:6651", id="IPv6 in brackets"),
        pytest.param("pulsar+ssl://b:7000", None, "pulsar+ssl://b:7000", None, id="a broker is its own proxy"),
        pytest.param("pulsar://b:7000", None, "pulsar+ssl://b:7000", None, id="encrypted as the service URL says"),
        pytest.param("pulsar://c:9", None, "pulsar+ssl://a:6651,b:7000", "c:9", id="on the whole way to a proxy"),
    ],
)
def test_the_way_to_a_broker(logical: str | None, physical: str | None, dial: str, behind: str | None) -> None:
    assert route_to_broker(logical, physical, SERVICE) == BrokerRoute(ServiceUrl.parse(dial), behind)


@pytest.mark.parametrize(("logical", "physical"), [("c:6650", None), ("pulsar://c", "c:6650")])
def test_there_is_no_way_to_what_is_no_url(logical: str, physical: str | None) -> None:
    with pytest.raises(InvalidUrl):
        route_to_broker(logical, physical, SERVICE)
