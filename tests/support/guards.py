"""Brokers with authentication: by token, by name and password, or by certificate.

The role `me` may do everything, with each kind of credentials. Other roles are authenticated and may do nothing. Only a
real broker checks that: the embedded one authenticates and does not authorise. A proxy may act for the clients whose
credentials it forwards.
"""

import base64
from typing import NamedTuple

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from tests.support.admin import Admin
from tests.support.certificates import Authority, Files
from tests.support.ports import free_ports
from tests.support.standalone import BrokerProcess

ME = "me"
STRANGER = "a stranger"
PROXY = "a proxy"
PASSWORD = "open-sesame"
HTPASSWD = f"{ME}:$apr1$saltsalt$KlYmbxGi6RFqoNneyFPyH/"
"""The output of `openssl passwd -apr1 -salt saltsalt`."""
SECRET = b"thirty-two bytes, as HS256 wants them, or more"
TOKENS = Tokens(SECRET)
REFRESH_SECONDS = 3
"""The interval at which a broker looks for expired credentials, and its wait for new ones before it disconnects."""
LIFETIME_SECONDS = 3
"""The lifetime of a token to be renewed: a whole number, because the official client takes no other from an issuer."""
RENEWED_TWICE_SECONDS = 3 * (LIFETIME_SECONDS + REFRESH_SECONDS)
"""The time for two renewals, and half as much again."""

_PROVIDERS = ",".join(
    f"org.apache.pulsar.broker.authentication.AuthenticationProvider{kind}" for kind in ("Token", "Basic", "Tls")
)
_SETTINGS = """
brokerServicePortTls={port}
tlsCertificateFilePath={shown.certificate}
tlsKeyFilePath={shown.key}
tlsTrustCertsFilePath={authority}
tlsRequireTrustedClientCertOnConnect=false
authenticationEnabled=true
authenticationProviders={providers}
authenticationRefreshCheckSeconds={refresh}
tokenSecretKey=data:;base64,{secret}
basicAuthConf=data:;base64,{passwords}
authorizationEnabled=true
superUserRoles={me},{proxy}
proxyRoles={proxy}
authenticateOriginalAuthData=true
brokerClientTlsEnabled=false
brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
brokerClientAuthenticationParameters=token:{token}
"""


_SETTINGS_OF_PROXY = """
servicePortTls={port}
tlsCertificateFilePath={shown.certificate}
tlsKeyFilePath={shown.key}
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
tokenSecretKey=data:;base64,{secret}
forwardAuthorizationCredentials=true
brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
brokerClientAuthenticationParameters=token:{token}
"""


class Guarded(NamedTuple):
    """A broker with authentication, as tests see it."""

    service_url: str
    service_url_tls: str
    admin: Admin
    authority: Authority

    def certificate_of(self, name: str) -> Files:
        """Return a certificate for this name."""
        return self.authority.certify([], file_name=name)


class GuardedProxy(NamedTuple):
    """The URLs of a proxy in front of such a broker."""

    service_url: str
    service_url_tls: str
    web_url: str


def guard(broker: BrokerProcess, authority: Authority) -> str:
    """Configure an Apache Pulsar that is not started yet, and return its service URL over TLS."""
    (port,) = free_ports(1)
    settings = _SETTINGS.format(
        port=port,
        shown=authority.certify(file_name="broker"),
        authority=authority.file,
        providers=_PROVIDERS,
        refresh=REFRESH_SECONDS,
        secret=_encoded(SECRET),
        passwords=_encoded(HTPASSWD.encode()),
        me=ME,
        proxy=PROXY,
        token=TOKENS.issue(ME),
    )
    broker.configure(settings)
    broker.admin = admin_of(broker.web_url)
    return f"pulsar+ssl://127.0.0.1:{port}"


def guard_of_proxy(authority: Authority) -> tuple[str, str]:
    """Return the settings of a proxy that forwards its clients' credentials, and its service URL over TLS."""
    (port,) = free_ports(1)
    shown = authority.certify(file_name="proxy")
    settings = _SETTINGS_OF_PROXY.format(port=port, shown=shown, secret=_encoded(SECRET), token=TOKENS.issue(PROXY))
    return settings, f"pulsar+ssl://127.0.0.1:{port}"


def embedded_guard(authority: Authority) -> EmbeddedBroker:
    """Return an embedded broker with authentication, not started yet."""
    files = authority.certify(file_name="embedded")
    return EmbeddedBroker(
        certificate_file=files.certificate,
        private_key_file=files.key,
        trust_certs_file=authority.file,
        tokens=TOKENS,
        passwords={ME: PASSWORD},
    )


def admin_of(web_url: str) -> Admin:
    """Return the admin interface, with a token of `me`."""
    return Admin(web_url, TOKENS.issue(ME))


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
