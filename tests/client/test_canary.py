"""A secret is nowhere but where it belongs: each way of having one is used, and failed in, and everything is searched.

Searched are the lines of all loggers, DEBUG included, with the texts of the errors in them; warnings; the names of
threads; every object of the package that is alive, by its `repr`; what calls raise, with all that hangs on it and the
locals of the package's frames; and pickles, of all but the authentication itself.
"""

import base64
import contextlib
import gc
import io
import json
import logging
import pickle
import socket
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.client_options import ClientOptions
from tests.support.issuer_bench import IssuerInHand, issuing
from tests.support.life import ROOT, FakeBroker, until

CANARY = "c4n4ry/Ω-5e5am3"
FORMS = {
    CANARY,
    quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode().rstrip("="),
    CANARY.encode().decode("latin-1"),
    repr(CANARY.encode())[2:-1],
    json.dumps(CANARY)[1:-1],
}
TOKENS = Tokens(b"a secret of the tests")
PACKAGE = str(ROOT / "pulsar_actors")


class Lines(logging.Handler):
    """Keeps all that could be written of a record."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts += [self.format(record), repr(record.args), repr(record.__dict__)]
        if record.exc_info and record.exc_info[1]:
            self.texts += told_by(record.exc_info[1])


def told_by(error: BaseException) -> Iterator[str]:
    """Give all that an error tells of."""
    yield from (repr(error), str(error), repr(error.args), repr(getattr(error, "__notes__", "")), repr(vars(error)))
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    for frame in shown.stack:
        if frame.filename.startswith(PACKAGE):
            yield repr(frame.locals)
    with contextlib.suppress(TypeError):
        yield repr(pickle.dumps(error))
    for behind in (error.__cause__, error.__context__):
        if behind is not None:
            yield from told_by(behind)


class Search:
    """What was seen while a client was at work."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.texts: list[str] = []

    def look(self) -> None:
        """Look at what there is at this moment."""
        self.texts += [thread.name for thread in threading.enumerate()]
        for one in gc.get_objects():
            if str(type(one).__module__).startswith("pulsar_actors.") and not isinstance(one, (str, bytes)):
                with contextlib.suppress(AttributeError, ValueError):  # half-made, or a number too long to write
                    self.texts += [repr(one), str(one)]

    def raised_by(self, call: Callable[[], Any]) -> BaseException | None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
            self.texts += told_by(error)
            return error
        return None

    def found(self) -> list[str]:
        return [text for text in {*self.texts, *self.lines.texts} if any(form in text for form in FORMS)]


@contextlib.contextmanager
def search() -> Iterator[Search]:
    """Search all that is said within the block, and find nothing."""
    gc.collect()  # what another test had refused, half-made, is not to be found
    search = Search()
    root = logging.getLogger()
    level = root.level
    root.addHandler(search.lines)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield search
            gc.collect()
            search.texts += [repr(vars(one)) for one in warned]
    finally:
        root.removeHandler(search.lines)
        root.setLevel(level)
    assert search.lines.texts, "nothing was logged: DEBUG is not on"
    assert search.found() == []


class WithoutAuthentication(pickle.Pickler):
    """Leaves out what may hold the secret."""

    def persistent_id(self, obj: Any) -> Any:
        return "authentication" if isinstance(obj, pulsar.Authentication) else None


class Own(pulsar.Authentication):
    def __init__(self, given: Any) -> None:
        self.given = given

    def fetch(self, challenge: bytes | None = None) -> Any:
        return self.given() if callable(self.given) else self.given


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tokens=TOKENS, passwords={"ali": CANARY}) as broker:
        yield broker


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[IssuerInHand]:
    with issuing() as issuer:
        issuer.grant = {"expires_in": 1}
        issuer.next_token = lambda: CANARY  # type: ignore[method-assign]
        (tmp_path / "key.json").write_text(json.dumps({"client_id": "ali", "client_secret": CANARY}))
        (tmp_path / "token").write_text(CANARY)
        (tmp_path / "broken.json").write_text('{"client_secret": "' + CANARY)
        (tmp_path / "binary").write_bytes(CANARY.encode() + b"\xff")
        monkeypatch.setenv("CANARY", CANARY)
        monkeypatch.chdir(tmp_path)
        yield issuer


def echoing(issuer: IssuerInHand, status: int, body: str) -> IssuerInHand:
    issuer.refuse(status, body.encode())
    return issuer


def oauth2(issuer: IssuerInHand, **more: Any) -> pulsar.Authentication:
    return pulsar.AuthenticationOauth2(issuer.settings(**{"client_secret": CANARY, **more}))


def as_data() -> str:
    key = json.dumps({"client_id": "ali", "client_secret": CANARY})
    return "data:application/json;base64," + base64.b64encode(key.encode()).decode()


def fail() -> Any:
    raise ValueError("the vault is sealed")


WAYS: dict[str, Callable[[IssuerInHand], pulsar.Authentication]] = {
    "token": lambda _: pulsar.AuthenticationToken(CANARY),
    "token by a callable": lambda _: pulsar.AuthenticationToken(lambda: CANARY),
    "token by name": lambda _: pulsar.Authentication("token", f"token:{CANARY}"),
    "token in a file": lambda _: pulsar.Authentication("token", "file:token"),
    "token in the environment": lambda _: pulsar.Authentication("token", "env:CANARY"),
    "token that is not text": lambda _: pulsar.Authentication("token", "file:binary"),
    "basic": lambda _: pulsar.AuthenticationBasic("ali", CANARY),
    "basic with another name": lambda _: pulsar.AuthenticationBasic("eve", CANARY),
    "basic by name": lambda _: pulsar.Authentication("basic", json.dumps({"username": "ali", "password": CANARY})),
    "OAuth2": oauth2,
    "OAuth2 by data": lambda issuer: oauth2(issuer, client_secret=None, private_key=as_data()),
    "OAuth2 by file": lambda issuer: oauth2(issuer, client_secret=None, private_key="key.json"),
    "OAuth2 by a broken file": lambda issuer: oauth2(issuer, client_secret=None, private_key="broken.json"),
    "OAuth2 that is refused": lambda issuer: oauth2(echoing(issuer, 401, json.dumps({"error": CANARY}))),
    "OAuth2 that is described": lambda issuer: oauth2(
        echoing(issuer, 400, json.dumps({"error": "x", "error_description": f"{quote(CANARY, safe='')} is wrong"}))
    ),
    "OAuth2 of an issuer that fails": lambda issuer: oauth2(echoing(issuer, 500, f"<html>{CANARY}</html>")),
    "OAuth2 of an issuer that says other things": lambda issuer: oauth2(echoing(issuer, 200, f'"{CANARY}"')),
    "OAuth2 of an issuer that is away": lambda issuer: oauth2(issuer, issuer_url="http://127.0.0.1:1"),
    "OAuth2 of an issuer whose name is odd": lambda issuer: oauth2(issuer, tls_cert_file="none", tls_key_file="none"),
    "of one's own": lambda _: Own(("token", CANARY.encode())),
    "of one's own, which gives text": lambda _: Own(CANARY),
    "of one's own, which gives too much": lambda _: Own(("token", CANARY.encode(), CANARY)),
    "of one's own, which fails": lambda _: Own(fail),
}


def use(service_url: str, authentication: pulsar.Authentication, search: Search) -> None:
    options = {"operation_timeout_seconds": 0.5, "connection_timeout_ms": 250}
    held = ClientOptions(service_url, authentication, **options)  # type: ignore[arg-type]
    search.texts += [repr(held), repr(authentication)]
    pickled = io.BytesIO()
    WithoutAuthentication(pickled).dump(held)
    search.texts.append(repr(pickled.getvalue()))
    with contextlib.closing(pulsar.Client(service_url, authentication, **options)) as client:  # type: ignore[arg-type]
        search.raised_by(lambda: client.create_producer("t").send(b"x"))
        search.look()
        search.texts.append(repr(client.stats()))


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_nowhere_whether_it_is_accepted_or_not(
    broker: EmbeddedBroker, issuer: IssuerInHand, way: str
) -> None:
    with search() as seen:
        use(broker.service_url, WAYS[way](issuer), seen)


def hang_up(accepted: socket.socket) -> None:
    accepted.recv(1000)
    accepted.close()


def echo(accepted: socket.socket) -> None:
    """Send back what comes: a CONNECT, which is no command of a broker's."""
    accepted.sendall(accepted.recv(1000))
    accepted.close()


def garbage(accepted: socket.socket) -> None:
    accepted.recv(1000)
    accepted.sendall(b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff")
    accepted.close()


@pytest.mark.parametrize("serve", [hang_up, echo, garbage, lambda _: None])
@pytest.mark.parametrize("scheme", ["pulsar", "pulsar+ssl"])
@pytest.mark.parametrize("way", ["token", "basic"])
def test_a_secret_is_nowhere_when_a_broker_misbehaves(
    issuer: IssuerInHand, way: str, scheme: str, serve: Callable[[socket.socket], None]
) -> None:
    with FakeBroker(serve) as fake, search() as seen:
        use(fake.service_url.replace("pulsar", scheme), WAYS[way](issuer), seen)


def test_a_secret_is_nowhere_when_credentials_are_renewed_and_refused(broker: EmbeddedBroker) -> None:
    def tokens() -> Iterator[str]:
        yield TOKENS.issue("me", lifetime_seconds=4)
        yield CANARY
        while True:
            yield TOKENS.issue("me")

    authentication = pulsar.AuthenticationToken(tokens().__next__)
    with search() as seen, contextlib.closing(pulsar.Client(broker.service_url, authentication)) as client:
        producer = client.create_producer("t")
        until(lambda: producer.stats().reconnects == 1)
        seen.texts.append(repr(producer.stats()))
        seen.look()


WRONG: list[Callable[[], Any]] = [
    lambda: pulsar.Client(f"pulsar://ali:{CANARY}@127.0.0.1:6650"),
    lambda: pulsar.Client("pulsar://127.0.0.1", authentication=CANARY),  # type: ignore[arg-type]
    lambda: pulsar.AuthenticationToken(CANARY.encode()),  # type: ignore[arg-type]
    lambda: pulsar.AuthenticationBasic("a:b", CANARY),
    lambda: pulsar.Authentication(CANARY, "token"),
    lambda: pulsar.Authentication("oauth2token", CANARY),
    lambda: pulsar.AuthenticationOauth2(json.dumps({"issuer_url": CANARY, "client_secret": CANARY})),
    lambda: pulsar.AuthenticationOauth2(json.dumps({"issuer_url": f"https://a:{CANARY}@b", "client_secret": CANARY})),
    lambda: pulsar.AuthenticationOauth2(json.dumps({"issuer_url": "https://a", "private_key": f"data:{CANARY}"})),
    lambda: pulsar.AuthenticationTLS(CANARY, b"x"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("call", WRONG)
def test_a_secret_is_in_no_refusal_of_an_argument(call: Callable[[], Any]) -> None:
    with pytest.raises(pulsar.PulsarException) as refused:
        call()
    error = refused.value
    assert error.__cause__ is None
    assert error.__context__ is None
    said = f"{error!r} {error} {vars(error)} {pickle.dumps(error)!r} {''.join(traceback.format_exception_only(error))}"
    assert not any(form in said for form in FORMS)


def fail_with(text: str) -> None:
    raise ValueError(text)


def fail_behind(text: str) -> None:
    try:
        fail_with(text)
    except ValueError:
        raise KeyError from None


def take_note(text: str) -> None:
    error = KeyError()
    error.__dict__["__notes__"] = [text]
    raise error


PLANTS: dict[str, Callable[[Search], object]] = {
    "a line": lambda _: logging.getLogger("anywhere").debug("connecting as %s", CANARY),
    "a warning": lambda _: warnings.warn(f"careless with {quote(CANARY, safe='')}", stacklevel=1),
    "an error": lambda seen: seen.raised_by(lambda: fail_with(CANARY)),
    "an error behind it": lambda seen: seen.raised_by(lambda: fail_behind(CANARY)),
    "a note": lambda seen: seen.raised_by(lambda: take_note(CANARY)),
    "bytes": lambda seen: seen.texts.append(repr({"token": CANARY.encode()})),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_the_search_finds_what_is_there(plant: str) -> None:
    with contextlib.ExitStack() as block:
        seen = block.enter_context(pytest.raises(AssertionError, match="== \\[\\]")) and block.enter_context(search())
        logging.getLogger("anywhere").debug("nothing")
        PLANTS[plant](seen)
