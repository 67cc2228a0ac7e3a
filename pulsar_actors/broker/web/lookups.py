"""Where a topic is served, for clients whose service URL is `http://`.

A broker that does not serve the topic redirects to the one that does, with the same question and the flag that says
whose word is the last. A topic that does not exist is served by whoever is asked, if it may be made by itself; it is
not made by being looked up.

Clients ask for topics with names of the older form, which have a cluster in them, on paths of their own. Pulsar 4 has
those paths no more. Here they exist, so that the namespace is what is missing.
"""

from typing import Final

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
    return as_json(
        {
            "brokerUrl": urls.service_url,
            "httpUrl": urls.web_url,
            "nativeUrl": urls.service_url,
            "brokerUrlSsl": urls.service_url_tls,
        }
    )


def _redirect(call: Call, urls: BrokerUrls) -> Response:
    path, _, query = call.target.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith("authoritative=")]
    base = urls.web_url or urls.web_url_tls
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
