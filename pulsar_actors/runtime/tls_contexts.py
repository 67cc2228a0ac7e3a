"""What the streams of a client, or of a server, have in common: which certificates they trust, and which one they show.

To make a context reads files, which may block. A file that is of no use is refused by the name of its option.
"""

import ssl
from collections.abc import Callable
from importlib import import_module

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls_certificate import Certificate
from pulsar_actors.wire.excerpt import excerpt


def client_context(
    trust_certs_file: str | None = None,
    *,
    allow_insecure: bool = False,
    validate_hostname: bool = True,
    show: Certificate | None = None,
) -> ssl.SSLContext:
    """Make what a client's streams share.

    Without a file of authorities to trust, those of certifi are taken if it is installed, the system's if it is not.
    """
    context = _restricted(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = validate_hostname and not allow_insecure
    if allow_insecure:
        LOG.warning(
            "tls_allow_insecure_connection is on: whoever answers is taken for the broker, and can read and change all "
            "that is sent, credentials included; name a file of certificates as tls_trust_certs_file_path instead"
        )
        context.verify_mode = ssl.CERT_NONE
    elif trust_certs_file is not None:
        _trust(context, "tls_trust_certs_file_path", trust_certs_file)
    else:
        _trust_the_usual(context)
    if show is not None:
        _show(context, show)
    return context


def server_context(
    certificate_file: str, private_key_file: str, *, trust_certs_file: str | None = None
) -> ssl.SSLContext:
    """Make what a server's streams share; with a file of authorities to trust, clients have to show a certificate."""
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


def _trust_the_usual(context: ssl.SSLContext) -> None:
    try:
        where: Callable[[], str] = import_module("certifi").where
    except ImportError:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=where())


def _show(context: ssl.SSLContext, shown: Certificate) -> None:
    """Load a certificate and its key; which of the files is at fault is found out by reading the first on its own."""
    key_file = shown.key_file or shown.file

    def refuse_to_ask() -> str:
        """Stand in for OpenSSL, which would ask at the terminal."""
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
