"""TLS as a transformation of bytes: the peer's bytes go in; plain bytes, and bytes to send, come out.

No socket is involved. The library reads from one buffer in memory and writes to another, so the same class serves real
and simulated sockets, and both ends of a connection. A writer encrypts only as much as the socket takes, so no
encrypted bytes pile up.

TLS 1.2 and 1.3 are supported, without renegotiation. A handshake may fail after this side has completed it: with TLS
1.3 a client completes it first, and is told only afterwards that its certificate was refused. The text of a failure
says what is wrong, and which of the client's options may help.

This module also makes TLS contexts: the certificates that a client or a server trusts, and the one that it shows. To
make a context reads files, which may block. The error for an unusable file names the option.
"""

import contextlib
import ssl
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Final, cast

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.runtime.tls_config import Certificate, PeerDistrusted, TlsFailed
from pulsar_actors.wire.errors import excerpt

_RECORD: Final = 16 * 1024  # the most bytes in one record, and in one read
_OPENING: Final = 32  # the first bytes of a peer: they show if the peer uses TLS, and are quoted in an error
_RECORD_TYPES: Final = range(20, 24)
_RECORD_MAJOR: Final = 3  # the second byte of a record, in every version

_RENEW = "have it renewed, or set the clock of this machine if that is wrong"
_TRUST = "if it is to be trusted, name a file with its authority's certificate as tls_trust_certs_file_path"
_OF_NO_AUTHORITY = ("was signed with a certificate that is no authority's", "have one made by an authority")
_OTHER_NAME = "connect by a name that it lists, or turn tls_validate_hostname off"

_CERTIFICATE_ERRORS: Final = {  # OpenSSL's codes: what is wrong with the peer's certificate, and what to do
    2: ("was signed by an unknown authority", _TRUST),
    9: ("is not valid yet", "set the clock of this machine, or of the one that made the certificate"),
    10: ("has expired", _RENEW),
    18: ("is self-signed", _TRUST),
    19: ("was signed by an authority that is not trusted here", _TRUST),
    20: ("was signed by an unknown authority", _TRUST),
    21: ("was signed by an unknown authority", _TRUST),
    24: _OF_NO_AUTHORITY,
    26: ("is not for this use", "have one made whose extended key usage names it"),
    62: ("is for another name than {host}", _OTHER_NAME),
    64: ("does not list the address {host}", _OTHER_NAME),
    79: _OF_NO_AUTHORITY,  # until OpenSSL 3 this was 24
}
_SHOW_CERTIFICATE = "; tls_certificate_file_path and tls_private_key_file_path name the one to show"
_ALERTS: Final = {  # the alerts that a peer sends before it closes the connection
    "PROTOCOL_VERSION": "the peer speaks neither TLS 1.2 nor 1.3",
    "HANDSHAKE_FAILURE": "the peer supports no TLS version or cipher that was offered, or wants a certificate"
    + _SHOW_CERTIFICATE,
    "CERTIFICATE_REQUIRED": "the peer wants a certificate" + _SHOW_CERTIFICATE,
    "UNKNOWN_CA": "the peer does not know the authority that signed the certificate it was shown",
    "BAD_CERTIFICATE": "the peer does not accept the certificate it was shown",
    "CERTIFICATE_UNKNOWN": "the peer does not accept the certificate it was shown",
    "CERTIFICATE_EXPIRED": "the peer says that the certificate it was shown has expired",
    "CERTIFICATE_REVOKED": "the peer says that the certificate it was shown was revoked",
}
_TLS_ERRORS: Final = {
    "UNSUPPORTED_PROTOCOL": "the peer speaks neither TLS 1.2 nor 1.3",
    "NO_SHARED_CIPHER": "the peer shares no TLS cipher with this side",
    "TLSV1_UNRECOGNIZED_NAME": "the peer has no certificate for the host name that was asked for",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer showed no certificate, and one is required",
}


class TlsOutput(NamedTuple):
    """The result of feeding bytes of the peer."""

    plaintext: bytes
    to_send: bytes
    agreed: bool  # the handshake was completed by these bytes
    ended: bool  # the peer has closed the stream


class TlsStream:
    """One end of an encrypted stream."""

    __slots__ = ("_ended", "_host", "_incoming", "_is_server", "_opening", "_outgoing", "_tls", "is_agreed")

    def __init__(
        self, context: ssl.SSLContext, server_hostname: str | None = None, *, server_side: bool = False
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._host = server_hostname
        self._is_server = server_side
        self._opening = b""
        self._ended = False
        self.is_agreed = False
        self._tls = self._wrapped(context)

    def start(self) -> bytes:
        """Start the handshake, and return the bytes to send: none for a server."""
        return self.feed(b"").to_send

    def feed(self, ciphertext: Buffer) -> TlsOutput:
        """Take the peer's bytes, in pieces of any size. After an exception, `alert` has the bytes to send."""
        self._incoming.write(ciphertext)
        if len(self._opening) < _OPENING:
            self._opening += bytes(memoryview(ciphertext)[:_OPENING])
        agreed_before = self.is_agreed
        try:
            self.is_agreed = agreed_before or self._shake_hands()
            plaintext = self._read() if self.is_agreed else b""
        except ssl.SSLCertVerificationError as error:
            raise PeerDistrusted(self._reason(error)) from error
        except ssl.SSLError as error:
            raise TlsFailed(self._reason(error)) from error
        return TlsOutput(plaintext, self._outgoing.read(), self.is_agreed and not agreed_before, self._ended)

    def encrypt(self, buffers: Sequence[Buffer]) -> list[bytes]:
        """Encrypt all buffers, after the handshake."""
        if not self.is_agreed:
            raise InternalError("something was to be encrypted before TLS was agreed")
        left = memoryview(b"".join(buffers))
        try:
            while left:
                left = left[self._tls.write(left) :]
        except ssl.SSLError as error:
            raise TlsFailed(self._reason(error)) from error
        encrypted = self._outgoing.read()
        return [encrypted] if encrypted else []

    def peer_name(self) -> str | None:
        """Return the common name in the peer's certificate, if it has shown one that was checked."""
        shown = self._tls.getpeercert() or {}
        fields = cast("Iterable[Iterable[tuple[str, str]]]", shown.get("subject", ()))
        names = [value for parts in fields for name, value in parts if name == "commonName"]
        return names[0] if names else None

    def close_notify(self) -> bytes:
        """Close the stream, and return the bytes to send. There is no need to wait for the peer's close."""
        with contextlib.suppress(ssl.SSLError):  # the peer has not closed it, or the handshake is not done
            self._tls.unwrap()
        return self._outgoing.read()

    def alert(self) -> bytes:
        """Return the alert for the peer, after a failure."""
        return self._outgoing.read()

    def loss_reason(self, reason: str) -> str:
        """Describe the loss of the connection, with a hint if it came before the handshake was done."""
        if self.is_agreed or self._is_server:
            return reason
        return f"{reason}, before TLS was agreed: does this port speak TLS?"

    def _wrapped(self, context: ssl.SSLContext) -> ssl.SSLObject:
        host = self._host
        if host is not None:
            host = host.removesuffix(".")  # certificates have no last dot
        elif context.check_hostname:
            raise InvalidArgument("server_hostname takes the host's name where it is to be checked, got None")
        try:
            return context.wrap_bio(self._incoming, self._outgoing, server_side=self._is_server, server_hostname=host)
        except (ValueError, TypeError) as fault:
            raise InvalidArgument(f"server_hostname takes a host's name, got {excerpt(host)}") from fault

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _read(self) -> bytes:
        """Read all whole records; the rest stays in the buffer."""
        pieces: list[bytes] = []
        try:
            while piece := self._tls.read(_RECORD):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        else:
            self._ended = True
        return b"".join(pieces)

    def _reason(self, error: ssl.SSLError) -> str:
        if _is_plain(self._opening):
            return f"the peer does not speak TLS; it says {excerpt(self._opening[:_OPENING])}"
        return describe_tls_error(error, self._host, with_remedy=not self._is_server)


def describe_tls_error(error: ssl.SSLError, host: str | None, *, with_remedy: bool = True) -> str:
    """Describe what is wrong with a peer, and what a client can do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        wrong, remedy = _CERTIFICATE_ERRORS.get(error.verify_code, (f"is refused: {error.verify_message}", ""))
        wrong = f"the peer's certificate {wrong.format(host=excerpt(host))}"
        return f"{wrong}: {remedy}" if with_remedy and remedy else wrong
    fault = error.reason or ""
    known = _TLS_ERRORS.get(fault) or _ALERTS.get(fault.partition("ALERT_")[2])
    return known or f"TLS broke: {fault.replace('_', ' ').lower() or error}"


def _is_plain(opening: bytes) -> bool:
    """Return whether these first bytes are no TLS record."""
    return bool(opening) and (opening[0] not in _RECORD_TYPES or opening[1:2] not in {b"", bytes((_RECORD_MAJOR,))})


def client_context(
    trust_certs_file: str | None = None,
    *,
    allow_insecure: bool = False,
    validate_hostname: bool = True,
    show: Certificate | None = None,
) -> ssl.SSLContext:
    """Make the TLS context of a client.

    Without a file of authorities to trust, those of certifi are trusted if it is installed, otherwise the system's.
    """
    context = _restricted(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = validate_hostname and not allow_insecure
    _warn_of_what_is_not_checked(allow_insecure=allow_insecure, validate_hostname=validate_hostname)
    if allow_insecure:
        context.verify_mode = ssl.CERT_NONE
    elif trust_certs_file is not None:
        _trust(context, "tls_trust_certs_file_path", trust_certs_file)
    else:
        _trust_default_authorities(context)
    if show is not None:
        _show(context, show)
    return context


def _warn_of_what_is_not_checked(*, allow_insecure: bool, validate_hostname: bool) -> None:
    if allow_insecure:
        LOG.warning(
            "tls_allow_insecure_connection is on: any server is accepted as the broker, and can read and change all "
            "that is sent, credentials included; name a file of certificates as tls_trust_certs_file_path instead"
        )
    elif not validate_hostname:
        LOG.warning(
            "tls_validate_hostname is off: any server with a certificate of a trusted authority is accepted as the "
            "broker, and can read and change all that is sent, credentials included"
        )


def server_context(
    certificate_file: str, private_key_file: str, *, trust_certs_file: str | None = None
) -> ssl.SSLContext:
    """Make the TLS context of a server. With `trust_certs_file`, clients have to show a certificate."""
    context = _restricted(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    _show(context, Certificate(certificate_file, private_key_file, "certificate_file", "private_key_file"))
    if trust_certs_file is not None:
        _trust(context, "trust_certs_file", trust_certs_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _restricted(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def _trust(context: ssl.SSLContext, option: str, file: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except OSError as fault:
        raise _bad_file(option, file, "certificates in PEM", fault) from fault


def _trust_default_authorities(context: ssl.SSLContext) -> None:
    try:
        where: Callable[[], str] = import_module("certifi").where
    except ImportError:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=where())


def _show(context: ssl.SSLContext, shown: Certificate) -> None:
    """Load a certificate and its key.

    The certificate is read alone first, so that an error can name the faulty file.
    """
    key_file = shown.key_file or shown.file

    def refuse_to_ask() -> str:
        """Raise in place of OpenSSL, which would ask for a password at the terminal."""
        raise InvalidArgument(f"{shown.key_option} takes a key that is not encrypted, got {excerpt(key_file)}")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=shown.file)
    except OSError as fault:
        raise _bad_file(shown.option, shown.file, "a certificate in PEM", fault) from fault
    try:
        context.load_cert_chain(shown.file, shown.key_file, password=refuse_to_ask)
    except OSError as fault:
        raise _bad_file(shown.key_option, key_file, "the certificate's key in PEM", fault) from fault


def _bad_file(option: str, file: str, takes: str, fault: OSError) -> InvalidArgument:
    why = (fault.reason if isinstance(fault, ssl.SSLError) else fault.strerror) or str(fault)
    if why == "KEY_VALUES_MISMATCH":
        why = "it is the key of another certificate"
    elif "PEM lib" in why:
        why = "no key could be read from it"
    return InvalidArgument(f"{option} takes the path of a file with {takes}, got {excerpt(file)}: {why}")
