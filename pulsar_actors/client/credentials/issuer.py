"""An issuer of tokens: a web server that gives a token for a while to whoever shows an id and a secret.

It tells where it gives them (`/.well-known/openid-configuration`), and is asked there, with a form. Its certificate is
always checked, for its own name, also where the client takes any certificate of a broker's: what a broker may do with a
token ends with the token, and the secret is good for as many as one likes. For the same reason an issuer of `https`
that sends on to `http` is not followed, nor is any redirect.

What an issuer says is repeated in errors, unless the secret is among it.
"""

import json
import math
import re
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple, cast
from urllib.parse import quote, urlencode

from pulsar_actors.client.arguments import is_text
from pulsar_actors.client.credentials.key_file import Key
from pulsar_actors.client.credentials.secret_arguments import none_had
from pulsar_actors.client.credentials.token import token_data
from pulsar_actors.client.credentials.token_cache import Granted
from pulsar_actors.exceptions import ConnectError, ErrorGettingAuthenticationData, InvalidArgument, InvalidUrl
from pulsar_actors.runtime.http import Answer, Http, Question, endpoint_of
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.tls_certificate import Certificate
from pulsar_actors.runtime.tls_contexts import client_context
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["Issuer"]

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_GRANT: Final = "client_credentials"
_SECONDS: Final = 10.0
"""For both questions together."""
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_LONGEST_LIFE: Final = 10.0**9
_CODE: Final = re.compile(r"[\w.-]{1,64}")


class Issuer(NamedTuple):
    """Whom to ask, and what for."""

    url: str
    audience: str | None
    scope: str | None
    certificate: Certificate | None

    def grant(self, key: Key, trust_certs_file: str | None) -> Granted:
        """Ask for a token."""
        deadline = time.monotonic() + _SECONDS
        with closing(Http(lambda: client_context(trust_certs_file, show=self.certificate))) as http:
            url = self._endpoint(self._ask(http, Question(self.url + _WELL_KNOWN, _SECONDS), key), key)
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
            left = max(0.1, deadline - time.monotonic())
            return _granted(self._ask(http, Question(url, left, "POST", headers, self._form(key)), key))

    def _form(self, key: Key) -> bytes:
        fields = {
            "grant_type": _GRANT,
            "client_id": key.client_id,
            "client_secret": key.client_secret,
            "audience": self.audience,
            "scope": self.scope,
        }
        return urlencode({name: value for name, value in fields.items() if value is not None}, quote_via=quote).encode()

    def _endpoint(self, metadata: Mapping[str, object], key: Key) -> str:
        """Find where tokens are given."""
        url = metadata.get("token_endpoint")
        try:
            scheme = endpoint_of(url)[0] if isinstance(url, str) else None
        except InvalidUrl:
            scheme = None
        if not isinstance(url, str) or scheme is None:
            raise self._failed("does not say where it gives tokens: its token_endpoint is no URL of http or https")
        if scheme == "http":
            if self.url.startswith("https:"):
                raise self._failed("is asked over https and gives tokens over http, where anybody can read along")
            if key.client_secret is not None:
                LOG.warning("the issuer of tokens is asked over http: anybody on the way can read the client's secret")
        return url

    def _ask(self, http: Http, question: Question, key: Key) -> Mapping[str, object]:
        """Ask, and give the JSON object that is the answer."""
        try:
            answer = http.ask(question)
        except (ConnectError, InvalidArgument) as error:
            why = f"cannot be asked: {error}"
        else:
            fields = _fields(answer)
            if answer.status == _OK and fields is not None:
                return fields
            why = _said(answer, fields or {}, key)
        raise self._failed(why)

    def _failed(self, what: str) -> ErrorGettingAuthenticationData:
        return none_had(f"the issuer of tokens, {excerpt(self.url)}, {what}")


def _fields(answer: Answer) -> Mapping[str, object] | None:
    try:
        fields: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", fields) if isinstance(fields, dict) else None


def _said(answer: Answer, fields: Mapping[str, object], key: Key) -> str:
    """Say what came in a token's place."""
    if answer.status == _OK:
        return "gives an answer that is not a JSON object"
    if answer.status in _REDIRECTS:
        return f"redirects (HTTP {answer.status}), which is not followed: name the address it redirects to"
    words = [str(value) for value in (fields.get("error"), fields.get("error_description")) if is_text(value) and value]
    if any(key.is_told_by(word) for word in words):
        return f"answers HTTP {answer.status}, and repeats the secret"
    refusal = ": ".join(word if _CODE.fullmatch(word) else excerpt(word) for word in words)
    return f"answers HTTP {answer.status}" + (f", {refusal}" if refusal else "")


def _granted(fields: Mapping[str, object]) -> Granted:
    return Granted(token_data("the issuer", fields.get("access_token")), _lifetime(fields.get("expires_in")))


def _lifetime(given: object) -> float:
    """Read it; some issuers write the number as text. What makes no sense is not known."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        return 0.0
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), _LONGEST_LIFE) if math.isfinite(seconds) else 0.0
