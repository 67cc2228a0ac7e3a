import base64
import hashlib
import hmac
import json

import pytest

from pulsar_actors.broker.tokens import Identity, TokenRefused, Tokens
from pulsar_actors.exceptions import InvalidArgument

SECRET = b"a secret of the tests, long enough"
NOW_MS = 1_700_000_000_000


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(head: object, claims: object, secret: bytes = SECRET) -> str:
    """Make a token as RFC 7515 says, without any code of the package."""
    text = f"{part(head)}.{part(claims)}"
    return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


HS256 = {"alg": "HS256"}


def test_the_token_of_the_standards_own_example_is_good_until_it_ends() -> None:
    # RFC 7515, appendix A.1; it names nobody in `sub`, so only the signature can be looked at.
    key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
    token = (
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
        ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
        ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    tokens = Tokens(base64.urlsafe_b64decode(key + "=="))
    with pytest.raises(TokenRefused, match="has no subject"):
        tokens.check(token, 0)
    with pytest.raises(TokenRefused, match="another secret"):
        tokens.check(token[:-2] + "AA", 0)


def test_a_token_that_was_issued_is_its_subjects_until_it_ends() -> None:
    tokens = Tokens(SECRET)
    assert tokens.check(tokens.issue("me"), NOW_MS) == Identity("me", None)
    subject, expires_at_ms = tokens.check(tokens.issue("me", lifetime_seconds=60), NOW_MS)
    assert subject == "me"
    assert expires_at_ms is not None
    with pytest.raises(TokenRefused, match=r"the token ended 1\.5 s ago"):
        tokens.check(tokens.issue("me", lifetime_seconds=60), expires_at_ms + 1_500)


def test_a_token_that_others_signed_as_the_standard_says_is_good() -> None:
    token = signed(HS256, {"sub": "me", "exp": NOW_MS / 1000 + 1})
    assert Tokens(SECRET).check(token, NOW_MS) == Identity("me", NOW_MS + 1_000)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        pytest.param("", "3 parts, joined by dots, and this one 1", id="nothing"),
        pytest.param("a.b", "this one 2", id="two parts"),
        pytest.param("a.b.c.d", "this one 4", id="four parts"),
        pytest.param("*.*.*", "not base64url", id="other letters"),
        pytest.param("é.é.é", "not base64url", id="not ASCII"),
        pytest.param(f"{part(b'{')}.{part({})}.", "not JSON", id="half an object"),
        pytest.param(f"{part(b'[' * 100_000)}.{part({})}.", "not JSON", id="nested without end"),
        pytest.param(f"{part([])}.{part({})}.", "not a JSON object", id="a list"),
        pytest.param(
            signed({"alg": "none"}, {"sub": "me"}), "signed with HS256 here, and this one with 'none'", id="none"
        ),
        pytest.param(signed({}, {"sub": "me"}), "this one with None", id="no algorithm"),
        pytest.param(signed(HS256, {"sub": "me"}, b"other"), "another secret", id="another secret"),
        pytest.param(signed(HS256, {"sub": ""}), "its sub is ''", id="nobody"),
        pytest.param(signed(HS256, {"sub": 5}), "its sub is 5", id="a number for a name"),
        pytest.param(signed(HS256, {"sub": "me", "exp": "soon"}), "exp is 'soon'", id="a word for a time"),
        pytest.param(signed(HS256, {"sub": "me", "exp": True}), "exp is ", id="a truth for a time"),
        pytest.param(signed(HS256, {"sub": "me", "exp": 1}), "the token ended", id="long ago"),
        pytest.param(signed(HS256, b'{"sub":"me","exp":NaN}'), "and not a time", id="no number"),
        pytest.param(signed(HS256, b'{"sub":"me","exp":Infinity}'), "and not a time", id="without end"),
    ],
)
def test_whatever_is_no_good_token_is_refused_with_the_reason(token: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        Tokens(SECRET).check(token, NOW_MS)


@pytest.mark.parametrize("secret", ["a text", b"", None])
def test_a_secret_is_bytes(secret: object) -> None:
    with pytest.raises(InvalidArgument, match="secret is the bytes of a key"):
        Tokens(secret)  # type: ignore[arg-type]


def test_the_secret_is_not_shown() -> None:
    assert SECRET.decode() not in repr(Tokens(SECRET))
