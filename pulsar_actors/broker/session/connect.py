"""The handshake, credentials, and signs of life.

A client is accepted with CONNECTED, or refused with an error whose request id is that of nobody; the connection then
ends. Where the broker wants tokens, an accepted one may end while its client is connected. Then the client is asked for
a fresh one, if it has said that it can be; the connection ends if it cannot, if the answer is no good, and if none
comes in time.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers, Surroundings
from pulsar_actors.broker.tokens import Identity, TokenRefused
from pulsar_actors.broker.web.brokers import VERSION
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ProtocolVersion,
    ServerError,
)

__all__ = ["HANDLERS", "REFRESH_SECONDS"]

SERVER_VERSION: Final = f"pulsar_actors, as Pulsar Server{VERSION}"
PROTOCOL_VERSION: Final = ProtocolVersion.v21
REFRESH_SECONDS: Final = 60.0
"""How long a client has for fresh credentials; a broker looks that often."""

_METHOD: Final = "token"
_REFRESH: Final = b"PulsarAuthRefresh"  # what Pulsar's own clients know a broker-started refresh by
_FEATURES: Final = FeatureFlags(
    supports_topic_watchers=True,
    supports_get_partitioned_metadata_without_auto_creation=True,
    supports_repl_dedup_by_lid_and_eid=True,
    supports_topic_watcher_reconcile=True,
)


def on_connect(session: Session, connect: CommandConnect, _: memoryview) -> None:
    """Accept the client or turn it away."""
    if session.accepted:
        session.close("a second CONNECT")
        return
    try:
        session.identity = _identify(session, connect.auth_method_name, connect.auth_data)
    except TokenRefused as fault:
        _turn_away(session, connect, fault)
        return
    session.accepted = True
    session.version = connect.client_version
    session.features.CopyFrom(connect.feature_flags)
    LOG.info("%s is accepted: %s", session, excerpt(connect.client_version))
    session.send(
        CommandConnected(
            server_version=SERVER_VERSION,
            protocol_version=min(connect.protocol_version, PROTOCOL_VERSION),
            max_message_size=session.here.cluster.settings.max_message_size,
            feature_flags=_FEATURES,
        )
    )
    _watch_expiry(session)


def on_auth_response(session: Session, answer: CommandAuthResponse, _: memoryview) -> None:
    """Take fresh credentials, of whoever was accepted before."""
    if not session.refreshing:
        _turn_away(session, CommandConnect(), TokenRefused("nobody asked for fresh credentials"))
        return
    try:
        fresh = _identify(session, answer.response.auth_method_name, answer.response.auth_data)
    except TokenRefused as fault:
        _turn_away(session, CommandConnect(), fault)
        return
    if fresh is None or session.identity is None or fresh.subject != session.identity.subject:
        _turn_away(session, CommandConnect(), TokenRefused("the fresh token is somebody else's"))
        return
    session.identity = fresh
    session.refreshing = False
    _watch_expiry(session)


def on_ping(session: Session, _: CommandPing, __: memoryview) -> None:
    """Answer."""
    session.send(CommandPong())


def on_pong(_: Session, __: CommandPong, ___: memoryview) -> None:
    """Take it for what anything that arrives is: a sign of life."""


def _identify(session: Session, method: str, data: bytes) -> Identity | None:
    """Tell whose the credentials are; None where the broker asks for none."""
    here = session.here
    if here.tokens is None and here.passwords is None and not here.certificates:
        return None
    if method == "basic" and here.passwords is not None:
        return _of_password(here.passwords, data)
    if method == "tls" and here.certificates:
        return _of_certificate(session)
    if here.tokens is None or method != _METHOD:
        came_with = "nothing" if method in {"", "none"} else method
        raise TokenRefused(f"this broker wants {_wanted(here)}, and the client came with {came_with}")
    return here.tokens.check(data.decode(errors="replace"), here.loop.wall_clock_ms())


def _wanted(here: Surroundings) -> str:
    known = (
        ("a token", here.tokens is not None),
        ("a password", here.passwords is not None),
        ("a certificate", here.certificates),
    )
    return " or ".join(what for what, is_known in known if is_known)


def _of_password(passwords: Mapping[str, str], data: bytes) -> Identity:
    name, _, password = data.decode(errors="replace").partition(":")
    if not hmac.compare_digest(passwords.get(name, "").encode(), password.encode()) or name not in passwords:
        raise TokenRefused("there is no such name, or it has another password")
    return Identity(name, None)


def _of_certificate(session: Session) -> Identity:
    name = session.certified_as()
    if name is None:
        raise TokenRefused("the client showed no certificate that names it")
    return Identity(name, None)


def _turn_away(session: Session, connect: CommandConnect, fault: TokenRefused) -> None:
    session.refuse(connect, Refusal(ServerError.AuthenticationError, f"Failed to authenticate: {fault}"))
    session.close_when_sent("its credentials were refused")


def _watch_expiry(session: Session) -> None:
    identity = session.identity
    if identity is not None and identity.expires_at_ms is not None:
        left = (identity.expires_at_ms - session.here.loop.wall_clock_ms()) / 1000
        session.here.loop.later(max(0.0, left), _expire, (session, identity))


def _expire(watched: tuple[Session, Identity]) -> None:
    """Ask for fresh credentials, or end the connection of a client that would not understand."""
    session, identity = watched
    if session.closed or session.identity != identity:
        return
    if not session.features.supports_auth_refresh:
        session.close("its token has ended")
        return
    session.refreshing = True
    challenge = AuthData(auth_method_name=_METHOD, auth_data=_REFRESH)
    session.send(
        CommandAuthChallenge(server_version=SERVER_VERSION, challenge=challenge, protocol_version=PROTOCOL_VERSION)
    )
    session.here.loop.later(REFRESH_SECONDS, _give_up, watched)


def _give_up(watched: tuple[Session, Identity]) -> None:
    session, identity = watched
    if session.refreshing and session.identity == identity:
        session.close("no fresh credentials in time")


HANDLERS: Final[Handlers] = {
    CommandConnect: on_connect,
    CommandAuthResponse: on_auth_response,
    CommandPing: on_ping,
    CommandPong: on_pong,
}
