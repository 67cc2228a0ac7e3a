"""Arguments that are secrets, or may have been mixed up with one: an error says what is wrong, and repeats nothing."""

from pulsar_actors.client.arguments import is_text
from pulsar_actors.exceptions import ErrorGettingAuthenticationData, InvalidArgument

__all__ = ["none_had", "secret_path", "secret_text"]


def secret_text(name: str, value: object) -> str:
    """Take text that is not blank."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} takes a str, got an object of type {type(value).__name__}")
    if not value.strip() or not is_text(value):
        raise InvalidArgument(f"{name} takes Unicode text that is not blank (what it got is not repeated here)")
    return value


def secret_path(name: str, value: object) -> str:
    """Take the name of a file, which a user may have mixed up with what is in it."""
    path = secret_text(name, value)
    if "\0" in path:
        raise InvalidArgument(f"{name} takes the path of a file, without NUL characters (it is not repeated here)")
    return path


def none_had(why: str) -> ErrorGettingAuthenticationData:
    """Make the error for credentials that cannot be had."""
    return ErrorGettingAuthenticationData("AuthenticationError", why)
