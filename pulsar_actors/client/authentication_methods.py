"""The methods of authentication by their names in the configuration files of Pulsar's C++ and Java clients."""

from collections.abc import Callable
from typing import Final

from pulsar_actors.client.credentials import (
    Provider,
    basic_from_params,
    certificate_from_params,
    secret_text,
    token_from_params,
)
from pulsar_actors.exceptions import InvalidArgument

__all__ = ["provider_by_name"]

_PARAMETERS: Final = "authParamsString"
_JAVA: Final = "org.apache.pulsar.client.impl.auth."


def _oauth2(parameters: str) -> Provider:
    """Make the OAuth2 provider. Its module is loaded only here, because no other method needs HTTP."""
    from pulsar_actors.client.oauth2 import oauth2_from_params  # noqa: PLC0415

    return oauth2_from_params(_PARAMETERS, parameters)


def _athenz(parameters: str) -> Provider:
    """Make the Athenz provider; the same is true of its module."""
    from pulsar_actors.client.athenz import athenz_from_params  # noqa: PLC0415

    return athenz_from_params(_PARAMETERS, parameters)


_MAKERS: Final[dict[str, Callable[[str], Provider]]] = {
    "token": token_from_params,
    "tls": certificate_from_params,
    "basic": lambda parameters: basic_from_params(_PARAMETERS, parameters),
    "oauth2token": _oauth2,
    "athenz": _athenz,
}
_CLASSES: Final = {
    "authenticationtoken": "token",
    "authenticationtls": "tls",
    "authenticationbasic": "basic",
    "oauth2.authenticationoauth2": "oauth2token",
    "authenticationathenz": "athenz",
}
"""The class names of the Java client, in its package."""


def provider_by_name(method: str, parameters: str) -> Provider:
    """Make the provider of a method, whose name may have capital or small letters."""
    name = secret_text("dynamicLibPath", method).lower()
    if name.startswith(_JAVA):
        name = _CLASSES.get(name.removeprefix(_JAVA), name)
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(secret_text(_PARAMETERS, parameters))
    raise InvalidArgument(f"dynamicLibPath takes one of {', '.join(_MAKERS)}; what it got may be the secret")
