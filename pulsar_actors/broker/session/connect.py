"""The handlers of CONNECT, AUTH_RESPONSE, PING and PONG.

They check credentials; `lifecycle.py` decides what follows.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from pulsar_actors.broker.session.lifecycle import AuthResponseReceived, ConnectReceived, CredentialsChecked
from pulsar_actors.broker.session.session import CommandHandlers, Session, SessionContext
from pulsar_actors.broker.tokens import Identity, TokenRefused
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAuthResponse,
    CommandConnect,
    CommandPing,
    CommandPong,
)

__all__ = ["CONNECT_HANDLERS"]


def on_connect(session: Session, connect: CommandConnect, _: bytes) -> None:
    """Accept or refuse the client."""
    checked = _check_credentials(session, connect.auth_method_name, connect.auth_data)
    session.decide(ConnectReceived(connect, checked))


def on_auth_response(session: Session, answer: CommandAuthResponse, _: bytes) -> None:
    """Check new credentials of an accepted client."""
    response = answer.response
    session.decide(AuthResponseReceived(_check_credentials(session, response.auth_method_name, response.auth_data)))


def on_ping(session: Session, _: CommandPing, __: bytes) -> None:
    """Answer with PONG."""
    session.send(CommandPong())


def on_pong(_: Session, __: CommandPong, ___: bytes) -> None:
    """Do nothing: any bytes from the client count as an answer to PING."""


def _check_credentials(session: Session, method: str, data: bytes) -> CredentialsChecked:
    try:
        identity = _identify(session, method, data)
    except TokenRefused as fault:
        return CredentialsChecked(fault=str(fault))
    if identity is None:
        return CredentialsChecked()
    if identity.expires_at_ms is None:
        return CredentialsChecked(identity.subject)
    return CredentialsChecked(
        identity.subject, expires_in=(identity.expires_at_ms - session.context.loop.wall_clock_ms()) / 1000
    )


def _identify(session: Session, method: str, data: bytes) -> Identity | None:
    """Find the owner of the credentials; None if the broker requires none."""
    context = session.context
    if context.tokens is None and context.passwords is None and not context.certificates:
        return None
    if method == "basic" and context.passwords is not None:
        return _identity_of_password(context.passwords, data)
    if method == "tls" and context.certificates:
        return _identity_of_certificate(session)
    if context.tokens is None or method != "token":
        came_with = "nothing" if method in {"", "none"} else method
        raise TokenRefused(f"this broker wants {_accepted_credentials(context)}, and the client came with {came_with}")
    return context.tokens.check(data.decode(errors="replace"), context.loop.wall_clock_ms())


def _accepted_credentials(context: SessionContext) -> str:
    known = (
        ("a token", context.tokens is not None),
        ("a password", context.passwords is not None),
        ("a certificate", context.certificates),
    )
    return " or ".join(what for what, is_known in known if is_known)


def _identity_of_password(passwords: Mapping[str, str], data: bytes) -> Identity:
    name, _, password = data.decode(errors="replace").partition(":")
    if not hmac.compare_digest(passwords.get(name, "").encode(), password.encode()) or name not in passwords:
        raise TokenRefused("there is no such name, or it has another password")
    return Identity(name, None)


def _identity_of_certificate(session: Session) -> Identity:
    name = session.certificate_name()
    if name is None:
        raise TokenRefused("the client showed no certificate that names it")
    return Identity(name, None)


CONNECT_HANDLERS: Final[CommandHandlers] = {
    CommandConnect: on_connect,
    CommandAuthResponse: on_auth_response,
    CommandPing: on_ping,
    CommandPong: on_pong,
}
