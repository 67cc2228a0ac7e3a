"""Authentication: the credentials of a client.

An `Authentication` returns the name of a method and its data: for the first CONNECT of every connection, and again when
a broker challenges, because credentials expire. `fetch` runs on separate threads, never on a loop, so it may read files
and call services; several threads may call it at once. For your own method, make a subclass with a `fetch`.

Secrets are in the result of `fetch` and nowhere else: in no `repr`, no text of an error, no log. A pickle has the
arguments of the object. So if the argument is a path, the name of a variable or an importable callable, the pickle has
no secret. A literal token, password or key is in the pickle.

The code of a method is loaded when the method is chosen. Methods can also be chosen by their names in the configuration
files of Pulsar's C++ and Java clients.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from pulsar_actors.exceptions import InvalidArgument

if TYPE_CHECKING:
    from pulsar_actors.client.credentials import Provider

__all__ = [
    "Authentication",
    "AuthenticationAthenz",
    "AuthenticationBasic",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
]


class Authentication:
    """Credentials by the name of their method, or the base class of your own credentials.

    `Authentication("token", "token:eyJh...")` has the form of Pulsar's configuration files. The names are `token` (also
    `file:///path` and `env:VARIABLE`, which are read whenever a token is needed), `tls`
    (`tlsCertFile:/path,tlsKeyFile:/path`), `basic`, `oauth2token` and `athenz` (JSON, as their own classes take it),
    and the Java client's names of classes, in capital or small letters.

    A subclass needs a `fetch`, and need not call this class's `__init__`. An exception of its `fetch` ends the
    connection; its text is raised to callers and logged, so it must have no secret.
    """

    def __init__(self, dynamicLibPath: str, authParamsString: str) -> None:  # noqa: N803 - the official names
        """Choose the method by its name; the second argument has its parameters."""
        from pulsar_actors.client.authentication_methods import provider_by_name  # noqa: PLC0415

        self._provider: Provider = provider_by_name(dynamicLibPath, authParamsString)

    def fetch(self, challenge: bytes | None = None) -> tuple[str, bytes]:
        """Return the method's name and its data; `challenge` is the broker's, None at first. It may block."""
        return self._provider.fetch(challenge)

    def judged(self, *, accepted: bool) -> None:
        """Note whether a broker has accepted the credentials. Called on a loop, so it must not block.

        A method that keeps credentials can then fetch others for the next connection.
        """
        from pulsar_actors.client.credentials import CachingProvider  # noqa: PLC0415

        provider = self._provider_if_any()
        if isinstance(provider, CachingProvider):
            provider.judged(accepted=accepted)

    @property
    def tls_certificate(self) -> tuple[str, str] | None:
        """The paths of the certificate that connections show, and of its key; None if they show none."""
        provider = self._provider_if_any()
        return provider.tls_certificate if provider else None

    def _provider_if_any(self) -> "Provider | None":
        """Return the provider; a subclass may have none."""
        return cast("Provider | None", getattr(self, "_provider", None))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class AuthenticationToken(Authentication):
    """A token."""

    def __init__(self, token: str | Callable[[], str | bytes]) -> None:
        """Take the text of a token, or a callable that returns it, also as bytes.

        A callable is called for each connection, and whenever a broker says that the token has expired. It may block:
        nothing else waits for it. For a token in a file or a variable, see `Authentication`.
        """
        from pulsar_actors.client.credentials import TokenProvider, secret_text  # noqa: PLC0415

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
        arguments are ignored.
        """
        from pulsar_actors.client.credentials import basic_from_params, new_basic_provider  # noqa: PLC0415

        if auth_params_string is not None:
            self._provider = basic_from_params("auth_params_string", auth_params_string)
        else:
            self._provider = new_basic_provider(username, password, method)


class AuthenticationTLS(Authentication):
    """A certificate."""

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        """Take the paths of two files in PEM: the certificate to show, and its key, which is not encrypted.

        Brokers see the certificate in the TLS handshake, so the service URL must be `pulsar+ssl` or `https`.
        """
        from pulsar_actors.client.credentials import CertificateProvider, secret_path  # noqa: PLC0415

        certificate = secret_path("certificate_path", certificate_path)
        self._provider = CertificateProvider((certificate, secret_path("private_key_path", private_key_path)))


class AuthenticationOauth2(Authentication):
    """Tokens of an OAuth2 issuer, for the client's own id and secret."""

    def __init__(self, auth_params_string: str) -> None:
        """Take the settings as JSON: `'{"issuer_url": "https://...", "private_key": "/path/of/key.json"}'`.

        issuer_url
            The issuer of tokens; `/.well-known/openid-configuration` below it has its token endpoint.
        private_key
            The file with `client_id` and `client_secret` as JSON: `/a/path`, `file:///a/path`, or the JSON itself as
            `data:application/json;base64,...`. A file is read whenever a token is needed.
        client_id, client_secret
            The id and the secret themselves, instead of `private_key`.
        audience, scope
            Sent to the issuer, if given.
        tokenEndpointAuthMethod
            `client_secret_post`; or `tls_client_auth`, for an issuer that knows the client by a certificate. Then no
            secret is needed or sent.
        tls_cert_file, tls_key_file
            The certificate (PEM) to show to the issuer, and its key.

        A token is kept for nine tenths of its lifetime. If a broker refuses a token, another is fetched, once, for the
        next connection. The issuer's certificate is always checked, with the client's `tls_trust_certs_file_path`.
        """
        from pulsar_actors.client.oauth2 import oauth2_from_params  # noqa: PLC0415

        self._provider = oauth2_from_params("auth_params_string", auth_params_string)


class AuthenticationAthenz(Authentication):
    """Role tokens of Athenz, for a service that proves who it is."""

    def __init__(self, auth_params_string: str) -> None:
        """Take the settings as JSON: `'{"tenantDomain": "shopping", "tenantService": "some_app", ...}'`.

        tenantDomain, tenantService, keyId
            The service that asks, and the number of its key at Athenz ("0").
        providerDomain
            The domain whose roles the token has: the brokers'.
        privateKey
            The service's key in PEM, RSA or EC: `file:///a/path`, or the key itself as
            `data:application/x-pem-file;base64,...`. A file is read whenever a token is needed.
        ztsUrl
            The token service. `/zts/v1` is added.
        x509CertChain, caCert
            The certificate to show to the token service, whose key is `privateKey`, and the authorities to trust:
            `file:///a/path`. With a certificate, nothing is signed, and no tenant is needed.
        principalHeader
            Another name of the header `Athenz-Principal-Auth`.

        Signing needs `cryptography`, which comes with `pip install 'pulsar-actors[encryption]'`. A token is kept for
        ninety minutes, or nine tenths of its lifetime if that is shorter.
        """
        from pulsar_actors.client.athenz import athenz_from_params  # noqa: PLC0415

        self._provider = athenz_from_params("auth_params_string", auth_params_string)
