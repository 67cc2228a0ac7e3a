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

__all__ = ["METHODS", "is_method", "provider_by_name"]

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


METHODS: Final = tuple(_MAKERS)
"""The names of the methods."""


def is_method(method: str) -> bool:
    """Return whether there is a method of this name."""
    return _short_name(method) in _MAKERS


def _short_name(method: str) -> str:
    name = method.lower()
    return _CLASSES.get(name.removeprefix(_JAVA), name) if name.startswith(_JAVA) else name


def provider_by_name(method: str, parameters: str) -> Provider:
    """Make the provider of a method, whose name may have capital or small letters."""
    maker = _MAKERS.get(_short_name(secret_text("dynamicLibPath", method)))
    if maker is not None:
        return maker(secret_text(_PARAMETERS, parameters))
    raise InvalidArgument(f"dynamicLibPath takes one of {', '.join(_MAKERS)}; what it got may be the secret")
