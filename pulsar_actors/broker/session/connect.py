"""The handlers of CONNECT, AUTH_RESPONSE, PING and PONG.

They check credentials; `lifecycle.py` decides what follows.
"""

from typing import Final

from pulsar_actors.broker.session.credentials import identify
from pulsar_actors.broker.session.lifecycle import AuthResponseReceived, ConnectReceived, CredentialsChecked
from pulsar_actors.broker.session.session import CommandHandlers, Session
from pulsar_actors.broker.tokens import TokenRefused
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
        identity = identify(session.context, method, data, session.certificate_name)
    except TokenRefused as fault:
        return CredentialsChecked(fault=str(fault))
    if identity is None:
        return CredentialsChecked()
    if identity.expires_at_ms is None:
        return CredentialsChecked(identity.subject)
    return CredentialsChecked(
        identity.subject, expires_in=(identity.expires_at_ms - session.context.loop.wall_clock_ms()) / 1000
    )


CONNECT_HANDLERS: Final[CommandHandlers] = {
    CommandConnect: on_connect,
    CommandAuthResponse: on_auth_response,
    CommandPing: on_ping,
    CommandPong: on_pong,
}
