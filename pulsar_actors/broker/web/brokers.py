"""What a tool asks before anything else: whether the broker is well, and which clusters and brokers there are."""

from typing import Final

from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import Response, as_json
from pulsar_actors.broker.web.routes import Route

__all__ = ["BROKER_ROUTES", "VERSION"]

VERSION: Final = "4.2.4"
"""Of the Pulsar whose behaviour this broker has; scripts look at it to see what they may ask for."""

_OK = Response(200, b"ok", "application/json")


def _say_ok(_: Call) -> Response:
    return _OK


def _tell_version(_: Call) -> Response:
    return Response(200, VERSION.encode(), "application/json")


def _list_brokers(call: Call) -> Response:
    if "cluster" in call.parts:
        _check_cluster(call)
    return as_json([call.site.broker_id])


def _tell_leader(call: Call) -> Response:
    urls = call.site.urls
    return as_json({"serviceUrl": urls.web_url or urls.web_url_tls, "brokerId": call.site.broker_id})


def _list_clusters(call: Call) -> Response:
    return as_json([call.cluster.settings.cluster_name])


def _tell_cluster(call: Call) -> Response:
    _check_cluster(call)
    urls = call.site.urls
    named = {
        "serviceUrl": urls.web_url,
        "serviceUrlTls": urls.web_url_tls,
        "brokerServiceUrl": urls.service_url,
        "brokerServiceUrlTls": urls.service_url_tls,
    }
    return as_json({name: url for name, url in named.items() if url})


def _check_cluster(call: Call) -> None:
    if call.parts["cluster"] != call.cluster.settings.cluster_name:
        raise HttpRefusal(404, "Cluster does not exist")


BROKER_ROUTES: Final = (
    Route("GET", "/admin/v2/brokers/health", _say_ok),
    Route("GET", "/admin/v2/brokers/ready", _say_ok),
    Route("GET", "/admin/v2/brokers/version", _tell_version),
    Route("GET", "/admin/v2/brokers", _list_brokers),
    Route("GET", "/admin/v2/brokers/leaderBroker", _tell_leader),
    Route("GET", "/admin/v2/brokers/{cluster}", _list_brokers),
    Route("GET", "/admin/v2/clusters", _list_clusters),
    Route("GET", "/admin/v2/clusters/{cluster}", _tell_cluster),
)
