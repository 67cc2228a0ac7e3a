"""The client's own id and secret, as OAuth2 knows it: in a file, in a URL that is the file, or given as they are.

A file is read whenever a token is needed, so that whoever renews it need not restart anything.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, cast
from urllib.parse import unquote, unquote_plus

from pulsar_actors.client.arguments import is_text
from pulsar_actors.client.credentials.file_url import path_of
from pulsar_actors.client.credentials.secret_arguments import none_had, secret_text
from pulsar_actors.exceptions import InvalidArgument

__all__ = ["Key", "KeyFile", "KeySource", "key_source"]

_DATA: Final = "data:application/json;base64,"
_MOST_BYTES: Final = 1 << 20
_TELLING: Final = 8
"""Letters of a secret in a row that are too many to be shown: answers may be cut short, or quote in their own way."""


class Key(NamedTuple):
    """Who asks for a token; there is no secret where a certificate shows that it is true."""

    client_id: str
    client_secret: str | None

    def __repr__(self) -> str:
        """Keep the secret out of it."""
        return f"Key(client_id={self.client_id!r})"

    def is_told_by(self, words: str) -> bool:
        """Tell whether the secret can be read in these words, as it is or as forms have it: all of it, or a part."""
        secret = (self.client_secret or "").casefold()
        parts = {secret[at : at + _TELLING] for at in range(max(1, len(secret) - _TELLING + 1))} - {""}
        forms = [form.casefold() for form in (words, unquote(words), unquote_plus(words))]
        return any(part in form for form in forms for part in parts)


KeySource = Callable[[], Key]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file with `client_id` and `client_secret` as JSON."""

    path: str
    needs_secret: bool

    def __call__(self) -> Key:
        """Read it."""
        why = ""
        content = b""
        try:
            with Path(self.path).open("rb") as file:
                content = file.read(_MOST_BYTES)
        except (OSError, ValueError) as fault:
            why = (fault.strerror if isinstance(fault, OSError) else "") or "its name cannot be used"
        if why:
            raise none_had(f"the private_key's file {self.path!r} cannot be read: {why}")
        key = _read(content, needs_secret=self.needs_secret)
        if isinstance(key, str):
            raise none_had(f"the private_key's file {self.path!r} {key}")
        return key


@dataclass(frozen=True, slots=True, repr=False)
class _Known:
    key: Key

    def __call__(self) -> Key:
        return self.key


def key_source(private_key: object, client_id: object, client_secret: object, *, needs_secret: bool) -> KeySource:
    """Take what is given of the three: `private_key` counts if there is one."""
    if private_key is None and client_id is None and client_secret is None:
        raise InvalidArgument("auth_params_string names nobody: it takes private_key, or client_id and client_secret")
    if private_key is None:
        secret = secret_text("client_secret", client_secret) if needs_secret else None
        return _Known(Key(secret_text("client_id", client_id), secret))
    url = secret_text("private_key", private_key)
    if url.startswith("file:"):
        return KeyFile(path_of(url), needs_secret)
    start = url.lstrip().lower()
    if not start.startswith(("data:", "{")):  # the key itself, given for its file's name, would be in that error
        return KeyFile(url, needs_secret)
    if not start.startswith(_DATA):
        raise InvalidArgument(f"private_key takes a path, file:... or {_DATA}... (what it got is not repeated here)")
    key = _read(_from_base64(url.strip()[len(_DATA) :]), needs_secret=needs_secret)
    if isinstance(key, str):
        raise InvalidArgument(f"private_key, the data in it, {key}")
    return _Known(key)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _read(content: bytes, *, needs_secret: bool) -> Key | str:
    """Give the key, or what is wrong with the text of it."""
    try:
        fields: object = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return "is not a JSON object"
    given = cast("dict[str, object]", fields)
    client_id, secret = given.get("client_id"), given.get("client_secret")
    if not is_text(client_id) or not client_id:
        return "has no client_id"
    if not needs_secret:
        return Key(cast("str", client_id), None)
    if not is_text(secret) or not secret:
        return "has no client_secret"
    return Key(cast("str", client_id), cast("str", secret))
