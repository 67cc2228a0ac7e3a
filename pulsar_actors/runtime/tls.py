"""TLS as a transform of bytes: what the peer sent goes in, plain bytes and what is to be sent come out.

No socket is involved. The library reads from one buffer in memory and writes to another, so the same stream serves a
real socket, a simulated one, and either end of it. Encrypting takes what it is given and no more, so whoever writes can
hand over slices as the socket takes them, and nothing piles up here.

TLS 1.2 and 1.3 are spoken, without renegotiation. Once agreed, a stream still has to listen before it can be sure:
with TLS 1.3 a client is done first, and hears only afterwards that its certificate was refused.

A failure says what is wrong and what can be done about it, in the words of the options of the client. How certificates
are checked is in the context that a stream is given: `tls_contexts.py` makes these.
"""

import contextlib
import ssl
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from pulsar_actors.exceptions import InternalError, InvalidArgument
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.runtime.tls_faults import PeerDistrusted, TlsFailed
from pulsar_actors.wire.excerpt import excerpt

_RECORD: Final = 16 * 1024  # the most that one record carries, and one read gives
_OPENING: Final = 32  # bytes of a peer's first words, to judge and to show
_RECORD_TYPES: Final = range(20, 24)
_RECORD_MAJOR: Final = 3  # the second byte of a record, in every version

_RENEW = "have it renewed, or set the clock of this machine if that is wrong"
_TRUST = "if it is to be trusted, name a file with its authority's certificate as tls_trust_certs_file_path"
_OTHER_NAME = "connect by a name that it lists, or turn tls_validate_hostname off"

_CERTIFICATE_FAULTS: Final = {  # OpenSSL's codes: what is wrong with the peer's certificate, and what to do
    2: ("was signed by an unknown authority", _TRUST),
    9: ("is not valid yet", "set the clock of this machine, or of the one that made the certificate"),
    10: ("has expired", _RENEW),
    18: ("is self-signed", _TRUST),
    19: ("was signed by an authority that is not trusted here", _TRUST),
    20: ("was signed by an unknown authority", _TRUST),
    21: ("was signed by an unknown authority", _TRUST),
    62: ("is for another name than {host}", _OTHER_NAME),
    64: ("does not list the address {host}", _OTHER_NAME),
}
_SHOW_CERTIFICATE = "; tls_certificate_file_path and tls_private_key_file_path name the one to show"
_ALERTS: Final = {  # what the peer says before it hangs up
    "PROTOCOL_VERSION": "the peer speaks neither TLS 1.2 nor 1.3",
    "HANDSHAKE_FAILURE": "the peer found no way of encrypting in common, or wants a certificate" + _SHOW_CERTIFICATE,
    "CERTIFICATE_REQUIRED": "the peer wants a certificate" + _SHOW_CERTIFICATE,
    "UNKNOWN_CA": "the peer does not know the authority that signed the certificate it was shown",
    "BAD_CERTIFICATE": "the peer does not accept the certificate it was shown",
    "CERTIFICATE_UNKNOWN": "the peer does not accept the certificate it was shown",
    "CERTIFICATE_EXPIRED": "the peer says that the certificate it was shown has expired",
    "CERTIFICATE_REVOKED": "the peer says that the certificate it was shown was revoked",
}
_FAULTS: Final = {
    "UNSUPPORTED_PROTOCOL": "the peer speaks neither TLS 1.2 nor 1.3",
    "NO_SHARED_CIPHER": "the peer knows no way of encrypting in common",
    "TLSV1_UNRECOGNIZED_NAME": "the peer does not go by the name that it was called by",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer showed no certificate, and one is required",
}


class TlsOutput(NamedTuple):
    """What came of some bytes of the peer's."""

    plaintext: bytes
    to_send: bytes
    agreed: bool  # just now
    ended: bool  # the peer has said goodbye; nothing comes after it


class TlsStream:
    """One end of one encrypted stream."""

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
        """Begin, and give what is to be sent; a server has nothing to say yet."""
        return self.feed(b"").to_send

    def feed(self, ciphertext: Buffer) -> TlsOutput:
        """Take what the peer sent, in pieces of any size. After it raised, `alert` is what the peer may be told."""
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
        """Encrypt all of it, once the stream is agreed."""
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
        """Give the common name in the peer's certificate, if it has shown one that was checked."""
        shown = self._tls.getpeercert() or {}
        fields = cast("Iterable[Iterable[tuple[str, str]]]", shown.get("subject", ()))
        names = [value for parts in fields for name, value in parts if name == "commonName"]
        return names[0] if names else None

    def close_notify(self) -> bytes:
        """Say goodbye; nothing can be encrypted after it. The peer's own goodbye need not be awaited."""
        with contextlib.suppress(ssl.SSLError):  # it wants to read the peer's, or there is nobody to say it to yet
            self._tls.unwrap()
        return self._outgoing.read()

    def alert(self) -> bytes:
        """Give what tells the peer of a failure, if anything does."""
        return self._outgoing.read()

    def cut_off(self, reason: str) -> str:
        """Say what it means that the connection was lost for this reason."""
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
        """Read whatever is whole; what is not stays in the buffer."""
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
        return fault_of(error, self._host, with_remedy=not self._is_server)


def fault_of(error: ssl.SSLError, host: str | None, *, with_remedy: bool = True) -> str:
    """Say what is wrong with a peer, and what a client can do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        wrong, remedy = _CERTIFICATE_FAULTS.get(error.verify_code, (f"is refused: {error.verify_message}", ""))
        wrong = f"the peer's certificate {wrong.format(host=excerpt(host))}"
        return f"{wrong}: {remedy}" if with_remedy and remedy else wrong
    fault = error.reason or ""
    known = _FAULTS.get(fault) or _ALERTS.get(fault.partition("ALERT_")[2])
    return known or f"TLS broke: {fault.replace('_', ' ').lower() or error}"


def _is_plain(opening: bytes) -> bool:
    """Tell whether these first bytes are no record of TLS."""
    return bool(opening) and (opening[0] not in _RECORD_TYPES or opening[1:2] not in {b"", bytes((_RECORD_MAJOR,))})
