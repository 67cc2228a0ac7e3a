"""Where a topic is served, for clients whose service URL is `http://`.

A broker that does not serve the topic redirects to the one that does, with the same question and the flag that says
whose word is the last. A topic that does not exist is served by whoever is asked, if it may be made by itself; it is
not made by being looked up.

Whoever comes by another way than the broker's own names the listener that stands for it, in the query or, if that says
nothing, in a header; and goes on naming it where the question is sent on.

Clients ask for topics with names of the older form, which have a cluster in them, on paths of their own. Pulsar 4 has
those paths no more. Here they exist, so that the namespace is what is missing.
"""

from typing import Final
from urllib.parse import quote_plus

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.refusal import Missing
from pulsar_actors.broker.web.calls import BrokerUrls, Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["LOOKUP_ROUTES"]


def _look_up(call: Call) -> Response:
    name = call.topic_name()
    owner = call.cluster.owner_of(name)
    if owner is not None and owner != call.site.name:
        return _redirect(call, call.site.urls_of(owner))
    _check_existence(call, name)
    urls = call.site.urls
    address = _address(urls, _listener(call))
    return as_json(
        {
            "brokerUrl": address.service_url,
            "httpUrl": urls.web_url,
            "nativeUrl": address.service_url,
            "brokerUrlSsl": address.service_url_tls,
        }
    )


def _listener(call: Call) -> str:
    return call.query.get("listenerName") or call.headers.get("x-pulsar-listenername", "")


def _address(urls: BrokerUrls, listener: str) -> Address:
    """Choose the address that a listener stands for; Pulsar takes one that it does not have for its own fault."""
    if not listener:
        return Address(urls.service_url, urls.service_url_tls)
    if listener not in urls.advertised:
        raise HttpRefusal(500, f"the broker do not have {listener} listener")
    return urls.advertised[listener]


def _redirect(call: Call, urls: BrokerUrls) -> Response:
    path, _, query = call.target.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith("authoritative=")]
    if not call.query.get("listenerName") and (listener := _listener(call)):
        kept.append(f"listenerName={quote_plus(listener)}")
    base = urls.web_url_tls if call.site.encrypted else urls.web_url or urls.web_url_tls
    return Response(307, headers=(("Location", f"{base}{path}?{'&'.join(['authoritative=true', *kept])}"),))


def _check_existence(call: Call, name: TopicName) -> None:
    """Refuse a topic that neither exists nor may be made."""
    if name.namespace_name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    try:
        call.cluster.partitions(name)
    except Missing as missing:
        raise HttpRefusal(404, f"Topic {name} not found") from missing


def _count_partitions(call: Call) -> Response:
    """Tell how many partitions a topic has; asked with the flag, one that does not exist may be made."""
    name = call.topic_name()
    if name.namespace_name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    try:
        count = call.cluster.partitions(name, create=call.flag("checkAllowAutoCreation"))
    except Missing as missing:
        raise HttpRefusal(404, f"Topic {name} not found") from missing
    return as_json({"partitions": count, "deleted": False})


LOOKUP_ROUTES: Final = (
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", _look_up),
    Route("GET", "/lookup/v2/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}", _look_up),
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions", _count_partitions),
    Route("GET", "/admin/{domain}/{tenant}/{cluster}/{namespace}/{topic}/partitions", _count_partitions),
)
