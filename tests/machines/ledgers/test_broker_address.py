import pytest

from pulsar_actors.machines.ledgers.broker_address import address_of_our_kind, leads_to_a_broker


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
def test_only_the_scheme_that_was_asked_for_leads_to_a_broker(address: str, in_plain: bool, with_tls: bool) -> None:  # noqa: FBT001 - columns
    assert leads_to_a_broker(address, tls=False) == in_plain
    assert leads_to_a_broker(address, tls=True) == with_tls


def test_of_two_addresses_the_one_of_our_kind_counts() -> None:
    both = ("pulsar://b", "pulsar+ssl://b")
    assert [address_of_our_kind(*both, tls=tls) for tls in (False, True)] == ["pulsar://b", "pulsar+ssl://b"]


def test_an_address_of_the_other_kind_in_its_place_is_none() -> None:
    assert address_of_our_kind("pulsar+ssl://b", "pulsar://b", tls=True) == ""
    assert address_of_our_kind("pulsar+ssl://b", "pulsar://b", tls=False) == ""
