"""The HTTP side of the broker: it accepts connections and finds the answer to each request.

    server = WebServer(Site(cluster, loop, name, urls_of), check_token)
    listener = loop.listen(host, port, server.accept)

`check_token` is asked where the broker demands tokens, with what came after `Authorization: Bearer` (nothing, if that
header did not come), and says why the token is refused, or None if it is not. Everything is behind it, as in Pulsar.
"""

import logging
from collections.abc import Callable

from pulsar_actors.broker.model.refusal import Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.web.brokers import BROKER_ROUTES
from pulsar_actors.broker.web.calls import Call, Site
from pulsar_actors.broker.web.connection import WebConnection
from pulsar_actors.broker.web.lookups import LOOKUP_ROUTES
from pulsar_actors.broker.web.messages import MESSAGE_ROUTES
from pulsar_actors.broker.web.namespaces import NAMESPACE_ROUTES
from pulsar_actors.broker.web.partitions import PARTITION_ROUTES
from pulsar_actors.broker.web.policies import POLICY_ROUTES
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.requests import Request
from pulsar_actors.broker.web.responses import Response, refused
from pulsar_actors.broker.web.routes import Router, read_query
from pulsar_actors.broker.web.schemas import SCHEMA_ROUTES
from pulsar_actors.broker.web.subscriptions import SUBSCRIPTION_ROUTES
from pulsar_actors.broker.web.tenants import TENANT_ROUTES
from pulsar_actors.broker.web.topics import TOPIC_ROUTES
from pulsar_actors.runtime.loop import Transport
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

__all__ = ["CheckToken", "WebServer"]

CheckToken = Callable[[str], str | None]

_LOG = logging.getLogger("pulsar_actors.broker")
_BEARER = "bearer "
_ROUTES = (
    *BROKER_ROUTES,
    *LOOKUP_ROUTES,
    *MESSAGE_ROUTES,
    *NAMESPACE_ROUTES,
    *PARTITION_ROUTES,
    *POLICY_ROUTES,
    *SCHEMA_ROUTES,
    *SUBSCRIPTION_ROUTES,
    *TENANT_ROUTES,
    *TOPIC_ROUTES,
)
_STATUS_OF_CODE = {
    ServerError.NotAllowedError: 405,
    ServerError.TopicTerminatedError: 409,
    ServerError.ConsumerBusy: 412,
    ServerError.ProducerBusy: 409,
    ServerError.IncompatibleSchema: 409,
    ServerError.InvalidTopicName: 412,
    ServerError.ServiceNotReady: 503,
}


class WebServer:
    """Serves one site."""

    def __init__(self, site: Site, check_token: CheckToken | None = None) -> None:
        self._site = site
        self._check_token = check_token
        self._router = Router(_ROUTES)
        self._connections: set[WebConnection] = set()

    def accept(self, transport: Transport, peer: str) -> WebConnection:  # noqa: ARG002 - `Loop.listen` tells it
        """Take a connection."""
        connection = WebConnection(self._site.loop, transport, self.answer, self._connections.discard)
        self._connections.add(connection)
        return connection

    def close(self) -> None:
        """End every connection; whoever listens is to stop first."""
        for connection in list(self._connections):
            connection.close()

    def answer(self, request: Request) -> Response:
        """Answer one request, whatever happens on the way."""
        try:
            return self._dispatch(request)
        except HttpRefusal as refusal:
            return refused(refusal.status, refusal.reason, refusal.headers)
        except Refusal as refusal:
            return refused(_status_of(refusal), refusal.reason)
        except Exception as bug:  # noqa: BLE001 - the one that asked shall hear of it, and the others be served
            _LOG.exception("%s %s failed", request.method, request.target)
            return refused(500, f"a bug of the embedded broker, please report it: {type(bug).__name__}: {bug}")

    def _dispatch(self, request: Request) -> Response:
        self._authenticate(request)
        path, _, query = request.target.partition("?")
        handler, parts = self._router.find(request.method, path)
        return handler(Call(self._site, parts, read_query(query), request.headers, request.body, request.target))

    def _authenticate(self, request: Request) -> None:
        if self._check_token is None:
            return
        given = request.headers.get("authorization", "")
        token = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else ""
        reason = self._check_token(token)
        if reason is not None:
            raise HttpRefusal(401, reason, (("WWW-Authenticate", "Bearer"),))


def _status_of(refusal: Refusal) -> int:
    """Choose the status for what the model refuses."""
    if isinstance(refusal, Missing):
        return 404
    if isinstance(refusal, Conflict):
        return 409
    if isinstance(refusal, Busy):
        return 412
    return _STATUS_OF_CODE.get(refusal.code, 400)
