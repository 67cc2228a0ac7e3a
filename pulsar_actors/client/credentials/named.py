"""Methods by name: what configuration files of Pulsar say, in the words of its C++ and its Java clients."""

from collections.abc import Callable
from typing import Final

from pulsar_actors.client.credentials.basic import basic_named
from pulsar_actors.client.credentials.certificate import certificate_named
from pulsar_actors.client.credentials.provider import Provider
from pulsar_actors.client.credentials.secret_arguments import secret_text
from pulsar_actors.client.credentials.token import token_named
from pulsar_actors.exceptions import InvalidArgument, OperationNotSupported

__all__ = ["provider_named"]

_PARAMETERS: Final = "authParamsString"
_JAVA: Final = "org.apache.pulsar.client.impl.auth."


def _oauth2(parameters: str) -> Provider:
    """Load that of OAuth2 when it is wanted: it takes all that HTTP takes, which the others do not."""
    from pulsar_actors.client.credentials.oauth2 import oauth2_named  # noqa: PLC0415

    return oauth2_named(_PARAMETERS, parameters)


_MAKERS: Final[dict[str, Callable[[str], Provider]]] = {
    "token": token_named,
    "tls": certificate_named,
    "basic": lambda parameters: basic_named(_PARAMETERS, parameters),
    "oauth2token": _oauth2,
}
_CLASSES: Final = {
    "authenticationtoken": "token",
    "authenticationtls": "tls",
    "authenticationbasic": "basic",
    "oauth2.authenticationoauth2": "oauth2token",
    "authenticationathenz": "athenz",
}
"""Of the Java client, in its package."""


def provider_named(method: str, parameters: str) -> Provider:
    """Make what is meant, in capital letters or small ones."""
    name = secret_text("dynamicLibPath", method).lower()
    if name.startswith(_JAVA):
        name = _CLASSES.get(name.removeprefix(_JAVA), name)
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(secret_text(_PARAMETERS, parameters))
    if name == "athenz":
        raise OperationNotSupported("this version has no authentication by Athenz: take a token, or bring your own")
    raise InvalidArgument(f"dynamicLibPath takes one of {', '.join(_MAKERS)}; what it got may be the secret")
