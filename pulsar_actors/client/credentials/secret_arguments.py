"""Arguments that are secrets, or may have been mixed up with one: an error says what is wrong, and repeats nothing."""

import json
from typing import cast

from pulsar_actors.client.arguments import is_text
from pulsar_actors.exceptions import ErrorGettingAuthenticationData, InvalidArgument

__all__ = ["json_object", "none_had", "secret_path", "secret_text"]


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


def json_object(name: str, given: object) -> dict[str, object]:
    """Take the text of a JSON object."""
    text = secret_text(name, given)
    try:
        fields: object = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):  # out here, for that error holds what it could not read
        raise InvalidArgument(f"{name} takes a JSON object (what it got is not repeated here)")
    return cast("dict[str, object]", fields)


def none_had(why: str) -> ErrorGettingAuthenticationData:
    """Make the error for credentials that cannot be had."""
    return ErrorGettingAuthenticationData("AuthenticationError", why)
