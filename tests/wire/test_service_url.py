import ipaddress
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.wire.service_url import (
    BrokerRoute,
    ServiceUrl,
    is_broker_address,
    is_broker_name,
    route_to_broker,
    usable_address,
)


@pytest.mark.parametrize(
    ("text", "scheme", "hosts", "canonical"),
    [
        ("pulsar://a", "pulsar", [("a", 6650)], "pulsar://a:6650"),
        ("pulsar+ssl://a", "pulsar+ssl", [("a", 6651)], "pulsar+ssl://a:6651"),
        ("http://a", "http", [("a", 80)], "http://a:80"),
        ("https://a", "https", [("a", 443)], "https://a:443"),
        ("http://localhost:8080/", "http", [("localhost", 8080)], "http://localhost:8080"),
        (
            "pulsar://a:6650,b,c:6651",
            "pulsar",
            [("a", 6650), ("b", 6650), ("c", 6651)],
            "pulsar://a:6650,b:6650,c:6651",
        ),
        ("pulsar+ssl://a:1,b/", "pulsar+ssl", [("a", 1), ("b", 6651)], "pulsar+ssl://a:1,b:6651"),
        ("pulsar://127.0.0.1:65535", "pulsar", [("127.0.0.1", 65535)], "pulsar://127.0.0.1:65535"),
        ("pulsar://[::1]", "pulsar", [("::1", 6650)], "pulsar://[::1]:6650"),
        (
            "pulsar://[::1]:1,[2001:DB8::0]:2",
            "pulsar",
            [("::1", 1), ("2001:db8::", 2)],
            "pulsar://[::1]:1,[2001:db8::]:2",
        ),
        ("pulsar://[fe80::1%Eth0._~-]", "pulsar", [("fe80::1%Eth0._~-", 6650)], "pulsar://[fe80::1%Eth0._~-]:6650"),
        ("pulsar://[fe80::1%eth0]:1", "pulsar", [("fe80::1%eth0", 1)], "pulsar://[fe80::1%eth0]:1"),
        (
            "PULSAR+SSL://Broker-1.Example.COM",
            "pulsar+ssl",
            [("broker-1.example.com", 6651)],
            "pulsar+ssl://broker-1.example.com:6651",
        ),
        (
            "pulsar://pulsar_broker.svc.:06650",
            "pulsar",
            [("pulsar_broker.svc.", 6650)],
            "pulsar://pulsar_broker.svc.:6650",
        ),
        ("pulsar://xn--mnchen-3ya.de", "pulsar", [("xn--mnchen-3ya.de", 6650)], "pulsar://xn--mnchen-3ya.de:6650"),
    ],
)
def test_a_url_reads_as_a_scheme_and_its_hosts(
    text: str, scheme: str, hosts: list[tuple[str, int]], canonical: str
) -> None:
    url = ServiceUrl.parse(text)
    assert url == (scheme, tuple(hosts))
    assert str(url) == canonical
    assert ServiceUrl.parse(canonical) == url


@pytest.mark.parametrize(
    ("scheme", "is_tls", "is_http"),
    [("pulsar", False, False), ("pulsar+ssl", True, False), ("http", False, True), ("https", True, True)],
)
def test_the_scheme_says_whether_it_is_encrypted_and_whether_it_is_http(
    scheme: str, *, is_tls: bool, is_http: bool
) -> None:
    url = ServiceUrl.parse(f"{scheme}://a")
    assert (url.is_tls, url.is_http) == (is_tls, is_http)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "begins with one of pulsar://, pulsar\\+ssl://, http://, https://$"),
        ("localhost:6650", "begins with one of .*; write 'pulsar://localhost:6650'$"),
        ("a:1,[::1]:2", r"begins with one of .*; write 'pulsar://a:1,\[::1\]:2'$"),
        ("localhost", "begins with one of pulsar://, pulsar\\+ssl://, http://, https://$"),
        ("localhost:", "begins with one of pulsar://, pulsar\\+ssl://, http://, https://$"),
        ("kafka://a", "begins with one of"),
        (" pulsar://a", "begins with one of"),
        ("pulsar:/a", "begins with one of"),
        ("pulsar://", "host of the service URL is empty"),
        ("pulsar:///", "host of the service URL is empty"),
        ("pulsar://a,,b", "host of the service URL is empty"),
        ("pulsar://a,", "host of the service URL is empty"),
        ("pulsar://,a", "host of the service URL is empty"),
        ("pulsar://:6650", "'' is not a host name"),
        ("pulsar://a b", "'a b' is not a host name"),
        ("pulsar://a, b", "' b' is not a host name"),
        ("pulsar+ssl://a:1,pulsar+ssl://b:2", r"has its scheme once, .*: pulsar\+ssl://a:1,b:1"),
        ("pulsar://a;b", "'a;b' is not a host name"),
        ("pulsar://a..b", "'a..b' is not a host name"),
        ("pulsar://m\xfcnchen.de", "is not a host name"),
        ("pulsar://a\n", "is not a host name"),
        ("pulsar://" + "a" * 64, "is not a host name"),
        ("pulsar://" + "a." * 127, "is not a host name"),
        ("pulsar://a:", r"a port of the service URL \(not repeated here\) is not a number from 1 to 65535"),
        ("pulsar://a:0", "port of 'a:0' is not"),
        ("pulsar://a:65536", "port of 'a:65536' is not"),
        ("pulsar://a:" + "9" * 5000, "is not a number from 1 to 65535"),
        ("pulsar://a:-1", "a port of the service URL .* is not"),
        ("pulsar://a:http", "a port of the service URL .* is not"),
        ("pulsar://a:\u0661", "is not a number from 1 to 65535"),
        ("pulsar://a:6650 ", "a port of the service URL .* is not"),
        ("pulsar://::1", "an IPv6 address goes in brackets"),
        ("pulsar://a:1:2", "an IPv6 address goes in brackets"),
        ("pulsar://[::1", "is not an IPv6 address in brackets"),
        ("pulsar://[::1]6650", "is not an IPv6 address in brackets"),
        ("pulsar://[::1]:", "is not a number from 1 to 65535"),
        ("pulsar://[::1]:65536", r"port of '\[::1\]:65536' is not"),
        ("pulsar://[::1%]", "'::1%' is not an IPv6 address"),
        ("pulsar://[::1%eth 0]", "'eth 0' is not the zone of an IPv6 address"),
        ("pulsar://[::1%\r\nX: y]:1", "is not the zone of an IPv6 address"),
        ("pulsar://[::1%\xe9]", "is not the zone of an IPv6 address"),
        ("pulsar://[::1%a,b]", "is not an IPv6 address in brackets"),
        ("pulsar://[::g]", "'::g' is not an IPv6 address"),
        ("pulsar://[127.0.0.1]", "is not an IPv6 address"),
        ("pulsar://[]", "'' is not an IPv6 address"),
        ("pulsar://a/path", "nothing may follow the hosts of a service URL, 'a', except one '/'"),
        ("http://a:80/api/v2", "nothing may follow the hosts"),
        ("pulsar://a//", "nothing may follow the hosts"),
        ("pulsar://a?x=1", "nothing may follow the hosts"),
        ("pulsar://a#x", "nothing may follow the hosts"),
    ],
)
def test_a_url_that_can_not_work_is_refused_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(InvalidUrl, match=problem):
        ServiceUrl.parse(text)


SECRETS = """
    pulsar://user:hunter2@host:6650 pulsar://a,hunter2@b http://hunter2@/ hunter2@host ftp://x:hunter2@host hunter2
    hunter2://host hunter2,host:6650 user:hunter2 host:6650/hunter2 pulsar://host/?token=hunter2
    pulsar://host?token=hunter2 pulsar://host/hunter2 pulsar://host#hunter2 pulsar://user:hunter2
    pulsar://user:hunter2,host pulsar://user:hunter2/path pulsar://user:hunter2:6650 pulsar://user:1hunter2
    pulsar://user:hunter2%40host pulsar://hunter2%40host pulsar://[::1]:hunter2 pulsar://[::1]hunter2
"""


@pytest.mark.parametrize("text", ["pulsar://bad host:x/hunter2", *SECRETS.split()])
def test_an_error_repeats_no_secret(text: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        ServiceUrl.parse(text)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


@pytest.mark.parametrize("text", [b"pulsar://a", None, 5, ["pulsar://a"]])
def test_what_is_no_text_is_no_url(text: Any) -> None:
    with pytest.raises(InvalidUrl, match=f"is a str, not {type(text).__name__}"):
        ServiceUrl.parse(text)


def test_a_url_has_room_for_hundreds_of_hosts_and_not_for_any_number() -> None:
    hosts = [f"pulsar-broker-{n}.pulsar-broker.pulsar.svc.cluster.local:6650" for n in range(250)]
    assert len(ServiceUrl.parse("pulsar://" + ",".join(hosts)).hosts) == 250
    with pytest.raises(InvalidUrl, match=r"at most 16,384 characters, not 800,008"):
        ServiceUrl.parse("pulsar://" + ",".join(["h"] * 400_000))


@pytest.mark.parametrize(
    "text", ["a" * 16_000, "[" + "1:" * 8_000 + "]", "a:" + "9" * 16_000, "[::1%" + "+" * 16_000 + "]"]
)
def test_a_long_host_makes_no_long_text(text: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        ServiceUrl.parse(f"pulsar://{text}")
    assert len(str(caught.value)) < 300
    assert caught.value.__cause__ is None


names = st.from_regex(r"[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,3}", fullmatch=True)
addresses = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)
urls = st.builds(
    ServiceUrl,
    st.sampled_from(["pulsar", "pulsar+ssl", "http", "https"]),
    st.lists(st.tuples(names | addresses, st.integers(1, 65535)), min_size=1, max_size=4, unique=True).map(tuple),
)


def test_a_host_that_is_written_twice_counts_once() -> None:
    assert ServiceUrl.parse("pulsar://a,b,A:6650").hosts == (("a", 6650), ("b", 6650))


@given(urls)
def test_the_canonical_text_reads_back(url: ServiceUrl) -> None:
    assert ServiceUrl.parse(str(url)) == url
    assert pickle.loads(pickle.dumps(url)) == url  # noqa: S301 - pickled on the same line


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_has_one_form_however_it_was_written(address: ipaddress.IPv6Address) -> None:
    assert ServiceUrl.parse(f"pulsar://[{address.exploded.upper()}]:1").hosts == ((str(address), 1),)


@given(st.text() | st.text(alphabet="a1:,[]%/@. -").map("pulsar://".__add__))
@example("pulsar://[::1%]")
@example("pulsar://[fe80::1%a%b]")
def test_any_text_is_a_url_that_reads_back_or_is_refused(text: str) -> None:
    try:
        url = ServiceUrl.parse(text)
    except InvalidUrl:
        return
    assert ServiceUrl.parse(str(url)) == url


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
