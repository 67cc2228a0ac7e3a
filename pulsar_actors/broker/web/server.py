"""The HTTP server of one broker: it accepts connections and finds the answer to each request.

    server = WebServer(WebContext(cluster, loop, name, urls_of), check)
    listener = loop.listen(host, port, server.accept)

With `check` every path requires credentials, as in Pulsar.
"""

from collections.abc import Callable
from functools import partial

from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.interfaces import Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.web.calls import Router, WebCall, WebContext, read_query
from pulsar_actors.broker.web.http import Headers, HttpRefusal, Request, Response, WebConnection, refusal_response
from pulsar_actors.broker.web.lookups import LOOKUP_ROUTES
from pulsar_actors.broker.web.namespaces import NAMESPACE_ROUTES
from pulsar_actors.broker.web.schemas import SCHEMA_ROUTES
from pulsar_actors.broker.web.subscriptions import SUBSCRIPTION_ROUTES
from pulsar_actors.broker.web.topics import TOPIC_ROUTES
from pulsar_actors.broker.web.transactions import TRANSACTION_ROUTES
from pulsar_actors.runtime.loop import Transport
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

__all__ = ["CheckCredentials", "WebServer"]


CheckCredentials = Callable[[str, Callable[[], str | None]], None]
"""Raises HttpRefusal if a request may not be answered.

It gets the header `Authorization`, empty if the request has none, and a function that returns the name in the client's
certificate.
"""

_ROUTES = (
    *LOOKUP_ROUTES,
    *NAMESPACE_ROUTES,
    *SCHEMA_ROUTES,
    *SUBSCRIPTION_ROUTES,
    *TOPIC_ROUTES,
    *TRANSACTION_ROUTES,
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
    """The connections and routes of one `WebContext`."""

    def __init__(self, context: WebContext, check: CheckCredentials | None = None) -> None:
        self._context = context
        self._check = check
        self._router = Router(_ROUTES)
        self._connections: set[WebConnection] = set()

    def accept(
        self,
        transport: Transport,
        peer: str,  # noqa: ARG002 - `Loop.listen` passes it
        certificate_name: Callable[[], str | None] = lambda: None,
    ) -> WebConnection:
        """Take a connection."""
        answer = partial(self.answer, certificate_name=certificate_name)
        connection = WebConnection(self._context.loop, transport, answer, self._connections.discard)
        self._connections.add(connection)
        return connection

    def close(self) -> None:
        """End every connection; close the listener first."""
        for connection in list(self._connections):
            connection.close()

    def answer(self, request: Request, certificate_name: Callable[[], str | None] = lambda: None) -> Response:
        """Answer one request, also after a bug."""
        try:
            if self._check is not None:
                self._check(request.headers.get("authorization", ""), certificate_name)
            return self._dispatch(request)
        except HttpRefusal as refusal:
            return _refuse(request, refusal.status, refusal.reason, refusal.headers)
        except Refusal as refusal:
            return _refuse(request, _status_of(refusal), refusal.reason)
        except Exception as bug:  # noqa: BLE001 - the client gets an answer, and other clients are not affected
            LOG.exception("%s %s failed", request.method, request.target)
            return refusal_response(500, f"a bug of the embedded broker, please report it: {type(bug).__name__}: {bug}")

    def _dispatch(self, request: Request) -> Response:
        path, _, query = request.target.partition("?")
        handler, parts = self._router.find(request.method, path)
        return handler(WebCall(self._context, parts, read_query(query), request.headers, request.body, request.target))


def _refuse(request: Request, status: int, reason: str, headers: Headers = ()) -> Response:
    LOG.info("%s %s is refused with %d: %s", request.method, request.target, status, reason)
    return refusal_response(status, reason, headers)


def _status_of(refusal: Refusal) -> int:
    """Choose the status for a refusal of the model."""
    if isinstance(refusal, Missing):
        return 404
    if isinstance(refusal, Conflict):
        return 409
    if isinstance(refusal, Busy):
        return 412
    return _STATUS_OF_CODE.get(refusal.code, 400)
