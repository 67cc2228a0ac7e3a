"""Who the client says it is.

An `Authentication` gives the name of a method and the data that goes with it: for the first CONNECT of every
connection, and again whenever a broker challenges, since credentials run out. It is asked on a thread of its own, never
on a loop, so it may read files and call services. To bring a method of your own, make a subclass with a `fetch`.

Secrets are in what `fetch` gives and nowhere else: in no `repr`, no text of an error, no log. Pickling takes along what
the object was made of: a path, the name of a variable or an importable callable stays a reference; only a literal
token, password or key is in its own pickle.

What is behind a method is loaded by whoever chooses it.
"""

from collections.abc import Callable
from typing import cast

from pulsar_actors.client.credentials.provider import Keeper, Provider
from pulsar_actors.client.credentials.secret_arguments import secret_path, secret_text
from pulsar_actors.exceptions import InvalidArgument

__all__ = [
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
]


class Authentication:
    """Credentials by the name of their method, or the base of your own.

    `Authentication("token", "token:eyJh...")` is what configuration files of Pulsar say. The names are `token` (also
    `file:///path` and `env:VARIABLE`, which are read whenever a token is needed), `tls`
    (`tlsCertFile:/path,tlsKeyFile:/path`), `basic` and `oauth2token` (JSON, as their own classes take it), and the Java
    client's names of classes, in capital or small letters.

    A subclass needs a `fetch`, and need not call this class's `__init__`. What its `fetch` raises ends the connection;
    the text of that is told to whoever waits, and logged, so let no secret be in it.
    """

    def __init__(self, dynamicLibPath: str, authParamsString: str) -> None:  # noqa: N803 - the official names
        """Choose the method by its name; the second argument is what that method takes."""
        from pulsar_actors.client.credentials.named import provider_named  # noqa: PLC0415

        self._provider: Provider = provider_named(dynamicLibPath, authParamsString)

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:
        """Give the method's name and its data; `challenge` is what the broker sent, None at first. It may block."""
        return self._provider.fetch(challenge)

    def judged(self, *, accepted: bool) -> None:
        """Hear whether a broker has accepted what `fetch` gave, on a loop: it must not block.

        Who keeps credentials may have others fetched then, for the next connection.
        """
        provider = self._provider_if_any()
        if isinstance(provider, Keeper):
            provider.judged(accepted=accepted)

    @property
    def tls_certificate(self) -> tuple[str, str] | None:
        """The paths of the certificate and the key that connections show, if they show one."""
        provider = self._provider_if_any()
        return provider.tls_certificate if provider else None

    def _provider_if_any(self) -> Provider | None:
        """Give it; a subclass may have none."""
        return cast("Provider | None", getattr(self, "_provider", None))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class AuthenticationToken(Authentication):
    """A token."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        """Take the text of a token, or a callable that gives it.

        A callable is asked anew for each connection, and whenever a broker says that the token is over. It may block:
        others do not wait for it. For a token in a file or a variable, see `Authentication`.
        """
        from pulsar_actors.client.credentials.token import TokenProvider  # noqa: PLC0415

        if not (callable(token) or isinstance(cast("object", token), str)):
            raise InvalidArgument(f"token takes a str, or a callable that gives one, got {type(token).__name__}")
        self._provider = TokenProvider(token if callable(token) else secret_text("token", token))


class AuthenticationBasic(Authentication):
    """A user name and a password."""

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        """Take the name and the password, and the method's name if the brokers call it otherwise.

        Or take all of them as `auth_params_string`, the JSON of `username`, `password` and `method`: then the other
        arguments count for nothing.
        """
        from pulsar_actors.client.credentials.basic import basic, basic_named  # noqa: PLC0415

        if auth_params_string is not None:
            self._provider = basic_named("auth_params_string", auth_params_string)
        else:
            self._provider = basic(username, password, method)


class AuthenticationTLS(Authentication):
    """A certificate."""

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        """Take the paths of two files in PEM: the certificate to show, and its key, which is not encrypted.

        Brokers see it while the connection is made, and that takes a service URL of `pulsar+ssl` or `https`.
        """
        from pulsar_actors.client.credentials.certificate import CertificateProvider  # noqa: PLC0415

        certificate = secret_path("certificate_path", certificate_path)
        self._provider = CertificateProvider((certificate, secret_path("private_key_path", private_key_path)))


class AuthenticationOauth2(Authentication):
    """Tokens of an OAuth2 issuer, for the client's own id and secret."""

    def __init__(self, auth_params_string: str) -> None:
        """Take the settings as JSON: `'{"issuer_url": "https://...", "private_key": "/path/of/key.json"}'`.

        issuer_url
            The issuer of tokens; `/.well-known/openid-configuration` below it says where it gives them.
        private_key
            Where `client_id` and `client_secret` are, as JSON: `/a/path`, `file:///a/path`, or the JSON itself as
            `data:application/json;base64,...`. A file is read whenever a token is needed.
        client_id, client_secret
            The two as they are, in the place of `private_key`.
        audience, scope
            What the token is for, if the issuer wants to know.
        tokenEndpointAuthMethod
            `client_secret_post`; or `tls_client_auth`, for an issuer that knows the client by a certificate. Then no
            secret is needed or sent.
        tls_cert_file, tls_key_file
            The certificate (PEM) to show to the issuer, and its key.

        A token is kept for nine tenths of its life. One that a broker refuses is asked for anew, once, for the next
        connection. The issuer's certificate is checked by the client's
        `tls_trust_certs_file_path`, and always.
        """
        from pulsar_actors.client.credentials.oauth2 import oauth2_named  # noqa: PLC0415

        self._provider = oauth2_named("auth_params_string", auth_params_string)
