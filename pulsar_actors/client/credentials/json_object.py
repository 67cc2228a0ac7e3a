"""Settings of a method that come as JSON, of which an error repeats nothing."""

import json
from typing import cast

from pulsar_actors.client.credentials.secret_arguments import secret_text
from pulsar_actors.exceptions import InvalidArgument

__all__ = ["json_object"]


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
