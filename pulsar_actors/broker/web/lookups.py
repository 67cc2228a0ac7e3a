"""Lookups over HTTP, and the admin calls about brokers and clusters.

A broker that does not serve the topic redirects the same request to the one that does, with `authoritative` set. A
topic that does not exist is served by any broker, if it may be created automatically. A lookup does not create it.

A client that uses an advertised listener names it in the query or in a header. The redirect has the name in its query.

Topics with names of the older form, which contain a cluster, are looked up on other paths. Pulsar 4 has no such paths.
This broker has them, and answers that the namespace does not exist.
"""

from typing import Final
from urllib.parse import quote_plus

from pulsar_actors.broker.model.interfaces import Address, Missing
from pulsar_actors.broker.web.calls import BrokerUrls, Route, WebCall
from pulsar_actors.broker.web.http import HttpRefusal, Response, json_response
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["LOOKUP_ROUTES", "PULSAR_VERSION"]


def _look_up(call: WebCall) -> Response:
    name = call.topic_name()
    owner = call.cluster.owner_of(name)
    if owner is not None and owner != call.context.name:
        return _redirect(call, call.context.urls_of(owner))
    _check_existence(call, name)
    urls = call.context.urls
    address = _address(urls, _listener(call))
    return json_response(
        {
            "brokerUrl": address.service_url,
            "httpUrl": urls.web_url,
            "nativeUrl": address.service_url,
            "brokerUrlSsl": address.service_url_tls,
        }
    )


def _listener(call: WebCall) -> str:
    return call.query.get("listenerName") or call.headers.get("x-pulsar-listenername", "")


def _address(urls: BrokerUrls, listener: str) -> Address:
    """Choose the address advertised for a listener. As in Pulsar, an unknown listener is a server error."""
    if not listener:
        return Address(urls.service_url, urls.service_url_tls)
    if listener not in urls.advertised:
        raise HttpRefusal(500, f"the broker do not have {listener} listener")
    return urls.advertised[listener]


def _redirect(call: WebCall, urls: BrokerUrls) -> Response:
    path, _, query = call.target.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith("authoritative=")]
    if not call.query.get("listenerName") and (listener := _listener(call)):
        kept.append(f"listenerName={quote_plus(listener)}")
    base = urls.web_url_tls if call.context.encrypted else urls.web_url or urls.web_url_tls
    return Response(307, headers=(("Location", f"{base}{path}?{'&'.join(['authoritative=true', *kept])}"),))


def _check_existence(call: WebCall, name: TopicName) -> None:
    """Refuse a topic that neither exists nor may be created."""
    if name.namespace_name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    try:
        call.cluster.partitions(name)
    except Missing as missing:
        raise HttpRefusal(404, f"Topic {name} not found") from missing


def _count_partitions(call: WebCall) -> Response:
    """Answer with the number of partitions. With the flag, a missing topic may be created."""
    name = call.topic_name()
    if name.namespace_name not in call.cluster.namespaces:
        raise HttpRefusal(404, "Namespace not found")
    try:
        count = call.cluster.partitions(name, create=call.flag("checkAllowAutoCreation"))
    except Missing as missing:
        raise HttpRefusal(404, f"Topic {name} not found") from missing
    return json_response({"partitions": count, "deleted": False})


PULSAR_VERSION: Final = "4.2.4"
"""The version of Pulsar that this broker imitates. Scripts read it to know the available calls."""

_OK = Response(200, b"ok", "application/json")


def _answer_ok(_: WebCall) -> Response:
    return _OK


def _get_version(_: WebCall) -> Response:
    return Response(200, PULSAR_VERSION.encode(), "application/json")


def _list_brokers(call: WebCall) -> Response:
    if "cluster" in call.parts:
        _check_cluster(call)
    return json_response([call.context.broker_id])


def _get_leader(call: WebCall) -> Response:
    urls = call.context.urls
    return json_response({"serviceUrl": urls.web_url or urls.web_url_tls, "brokerId": call.context.broker_id})


def _list_clusters(call: WebCall) -> Response:
    return json_response([call.cluster.settings.cluster_name])


def _get_cluster(call: WebCall) -> Response:
    _check_cluster(call)
    urls = call.context.urls
    named = {
        "serviceUrl": urls.web_url,
        "serviceUrlTls": urls.web_url_tls,
        "brokerServiceUrl": urls.service_url,
        "brokerServiceUrlTls": urls.service_url_tls,
    }
    return json_response({name: url for name, url in named.items() if url})


def _check_cluster(call: WebCall) -> None:
    if call.parts["cluster"] != call.cluster.settings.cluster_name:
        raise HttpRefusal(404, "Cluster does not exist")


LOOKUP_ROUTES: Final = (
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", _look_up),
    Route("GET", "/lookup/v2/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}", _look_up),
    Route("GET", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions", _count_partitions),
    Route("GET", "/admin/{domain}/{tenant}/{cluster}/{namespace}/{topic}/partitions", _count_partitions),
    Route("GET", "/admin/v2/brokers/health", _answer_ok),
    Route("GET", "/admin/v2/brokers/ready", _answer_ok),
    Route("GET", "/admin/v2/brokers/version", _get_version),
    Route("GET", "/admin/v2/brokers", _list_brokers),
    Route("GET", "/admin/v2/brokers/leaderBroker", _get_leader),
    Route("GET", "/admin/v2/brokers/{cluster}", _list_brokers),
    Route("GET", "/admin/v2/clusters", _list_clusters),
    Route("GET", "/admin/v2/clusters/{cluster}", _get_cluster),
)
