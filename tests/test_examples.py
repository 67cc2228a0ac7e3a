"""Every example is run as a user would run it, and what it says is what is asserted.

Each runs on the broker that it starts itself, and on one that it is given. Those with Spark are in tests/spark.
"""

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen
from wsgiref.util import setup_testing_defaults

import pytest
from fastapi.testclient import TestClient

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSubscribe, ServerError
from tests.support.life import until

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NOT_RUN_BY_ITSELF = {
    *("own_service", "where.py", "local_spark.py"),
    *("gunicorn_hooks.py", "wsgi_visits.py", "fastapi_service.py", "django_shop.py"),
}
"""What is no program by itself."""

Run = Callable[[str], list[str]]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(params=["its own broker", "a given broker"])
def run(request: pytest.FixtureRequest, broker: EmbeddedBroker) -> Run:
    """Run an example, and give the lines that it says."""
    given = ["--service-url", broker.service_url, "--web-url", broker.web_url]
    options = given if request.param == "a given broker" else []

    def run_and_read(name: str) -> list[str]:
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, name, *options], cwd=EXAMPLES, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run_and_read


def test_a_listener_hears_every_order_and_what_it_refused_again(run: Run) -> None:
    lines = run("listener.py")
    assert sorted(lines[:-1]) == [
        "again, please: no pears today",
        "taken: 2 plums",
        "taken: 3 apples",
        "taken: no pears today",
    ]
    assert lines.index("again, please: no pears today") < lines.index("taken: no pears today")
    assert lines[-1] == "3 orders taken"


def test_a_pool_of_workers_does_every_job_though_one_of_them_dies(run: Run) -> None:
    *shares, last = run("worker_pool.py")
    assert last == "40 of 40 jobs done; 2 of 3 workers lived to do any"
    assert sum(int(re.findall(r"\d+", share)[0]) for share in shares) == 40


def test_a_service_on_fastapi_takes_orders_and_prices_them(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_URL", broker.service_url)
    app = runpy.run_path(str(EXAMPLES / "fastapi_service.py"))["app"]
    with TestClient(app) as http:
        assert http.get("/bills/ann").status_code == 404
        for fruit, count in (("apples", 3), ("pears", 2), ("apples", 1)):
            answer = http.post("/orders", json={"customer": "ann", "fruit": fruit, "count": count})
            assert answer.status_code == 202
        until(lambda: http.get("/bills/ann").json() == {"cents": 100})
        assert http.post("/orders", json={"customer": "ann"}).status_code == 422
    assert broker.call(lambda inside: inside.connections) == []
    with TestClient(app) as http:
        broker.stop()
        answer = http.post("/orders", json={"customer": "ann", "fruit": "apples", "count": 1})
        assert (answer.status_code, answer.json()) == (503, {"detail": "try again later: Timeout"})


def test_a_site_on_django_stores_orders_and_has_a_client_in_each_process(broker: EmbeddedBroker) -> None:
    asked = """
import json, os, sys
import django_shop
from django.test import Client

def post(order):
    answer = Client().post("/orders", order, content_type="application/json")
    return answer.status_code, sorted(answer.json())

answers = [post({"customer": "ann"}), post({"customer": "bob"}), post({}), (Client().get("/orders").status_code, [])]
sys.stdout.flush()
child = os.fork()
if child == 0:
    print(post({"customer": "the child's"}), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print(answers, post({"customer": "the parent's"}), flush=True)
"""
    environment = {**os.environ, "PULSAR_URL": broker.service_url}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", asked]  # newer Pythons warn of each fork
    with pulsar.Client(broker.service_url) as client:
        reader = client.create_reader("orders", pulsar.MessageId.earliest)
        done = subprocess.run(  # noqa: S603 - our own words
            command, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        stored = (202, ["stored"])
        assert done.stdout.splitlines() == [
            f"{stored}",
            f"{[stored, stored, (400, ['error']), (405, [])]} {stored}",
        ]
        customers = [json.loads(reader.read_next(30_000).data())["customer"] for _ in range(4)]
        assert customers == ["ann", "bob", "the child's", "the parent's"]


def test_a_worker_on_asyncio_does_every_job_and_ends_in_good_order(run: Run) -> None:
    assert run("asyncio_worker.py") == [
        *(f"try {attempt}: JSONDecodeError" for attempt in (1, 2, 3)),
        "40 jobs done; given up: no job",
        "the worker has ended",
    ]


def test_a_request_queue_answers_what_it_can_and_gives_up_on_the_rest(run: Run) -> None:
    lines = run("request_queue.py")
    assert "answer to 0: 3" in lines
    for number, fault in ((1, "ZeroDivisionError"), (2, "JSONDecodeError")):
        assert [line for line in lines if f" of {number}: " in line] == [
            f"try {attempt} of {number}: {fault}" for attempt in (1, 2, 3)
        ]
    assert sorted(lines[-2:]) == [
        "given up: not even JSON (request 2)",
        'given up: {"a": 1, "b": 0} (request 1)',
    ]


def test_the_bookings_of_an_account_stay_in_order_and_with_one_worker(run: Run) -> None:
    first, *workers = run("accounts.py")
    assert first == "600 bookings on 4 partitions"
    shares = [re.fullmatch(r"a worker had (\d+) accounts, all in order", worker) for worker in workers]
    assert [share is not None for share in shares] == [True, True]
    assert sum(int(share[1]) for share in shares if share) == 20


def test_a_collector_has_what_a_sensor_sent_that_was_put_in_later(run: Run) -> None:
    assert run("sensors.py") == ["kitchen: 19.5", "cellar: 19.5", "attic: 19.5"]


def test_a_token_that_is_renewed_in_its_file_costs_no_connection(run: Run) -> None:
    assert run("renewed_token.py") == ["15 messages sent, 0 times reconnected"]


def test_deliveries_are_put_off_until_somebody_is_in_or_given_up(run: Run) -> None:
    lines = run("retries.py")
    assert "delivered: apples, after 0 retries" in lines
    assert "delivered: pears, after 2 retries" in lines
    assert [line for line in lines if "plums" in line] == [
        *(f"nobody is in to take plums: again in {100 * 2**retries} ms" for retries in range(4)),
        "given up: plums, for nobody is in to take plums",
    ]


def test_a_forked_worker_needs_a_client_of_its_own_and_the_parent_goes_on(run: Run) -> None:
    refused, sent, *stored = run("gunicorn_preload.py")
    assert refused.startswith("worker with the parent's client: ProcessForked: ")
    assert "make a new Client in the child" in refused
    assert sent == "worker with a client of its own: sent"
    assert stored == [
        "stored: from the parent, before the forks",
        "stored: from a worker",
        "stored: from the parent, after the forks",
    ]


class PreloadedServer:
    """What gunicorn does with its hooks: an application loaded before workers are forked off, which serve it."""

    def __init__(self) -> None:
        self.hooks = runpy.run_path(str(EXAMPLES / "gunicorn_hooks.py"))
        assert self.hooks["preload_app"] is True
        application = runpy.run_path(str(EXAMPLES / "wsgi_visits.py"))["application"]
        self.worker = SimpleNamespace(app=SimpleNamespace(wsgi=lambda: application))

    def work(self, paths: Sequence[str]) -> list[str]:
        """Serve some requests, as a worker does, and give the answers."""
        self.hooks["post_fork"](None, self.worker)
        answers = [self.get(path) for path in paths]
        self.hooks["worker_exit"](None, self.worker)
        return answers

    def get(self, path: str) -> str:
        environ: dict[str, object] = {"PATH_INFO": path.encode().decode("latin-1")}  # as WSGI has it
        setup_testing_defaults(environ)
        said: list[str] = []
        body = self.worker.app.wsgi()(environ, lambda status, _: said.append(status))
        return f"{said[0]}: {b''.join(body).decode()}"


@pytest.fixture
def server(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> PreloadedServer:
    monkeypatch.setenv("PULSAR_URL", broker.service_url)
    return PreloadedServer()


def test_an_application_under_gunicorn_has_a_client_in_each_forked_worker(
    broker: EmbeddedBroker, server: PreloadedServer
) -> None:
    with pulsar.Client(broker.service_url) as client:  # the parent has one as well
        for path in ("/apples", "/crêpes"):
            child = os.fork()
            if child == 0:
                os._exit(server.work([path]) != [f"200 OK: counted: {path}\n"])
            assert os.waitpid(child, 0)[1] == 0
        with client.create_reader("visits", pulsar.MessageId.earliest) as visits:
            assert [visits.read_next(30_000).data() for _ in range(2)] == [b"/apples", "/crêpes".encode()]


def test_a_visit_that_cannot_be_counted_is_a_503(broker: EmbeddedBroker, server: PreloadedServer) -> None:
    broker.faults.on(CommandSend).refuse(ServerError.TopicTerminatedError, "it is over")
    assert server.work(["/"]) == ["503 Service Unavailable: not counted: TopicTerminated\n"]


def test_a_worker_that_ends_has_closed_its_client(server: PreloadedServer) -> None:
    assert server.work(["/"]) == ["200 OK: counted: /\n"]
    assert server.get("/") == "503 Service Unavailable: not counted: AlreadyClosed\n"


@pytest.mark.parametrize("where", ["a folder of the user's", "this project"])
def test_a_users_own_service_is_tested_on_the_embedded_broker(tmp_path: Path, where: str) -> None:
    folder, what = EXAMPLES.parent, ["-p", "no:cacheprovider", "examples/own_service"]
    if where != "this project":  # which leaves out pytest-asyncio, whose warnings are its own
        folder, what = shutil.copytree(EXAMPLES / "own_service", tmp_path / "own_service"), ["-p", "no:asyncio"]
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-W", "error", "-m", "pytest", "-q", *what],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "11 passed" in done.stdout, done.stdout + done.stderr


def test_the_service_itself_serves_once_it_has_subscribed_and_until_ctrl_c(broker: EmbeddedBroker) -> None:
    broker.faults.on(CommandSubscribe).delay(0.5)
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "invoices.py", broker.service_url],
        cwd=EXAMPLES / "own_service",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as service:
        try:
            assert service.stdout is not None
            assert service.stdout.readline() == "serving\n"
            asked = f"{broker.web_url}/admin/v2/persistent/public/default/orders/subscriptions"
            with urlopen(asked, timeout=30) as answer:  # noqa: S310 - our own broker
                assert json.load(answer) == ["invoices"]
            with pulsar.Client(broker.service_url) as client:
                reader = client.create_reader("invoices", pulsar.MessageId.earliest)
                orders = client.create_producer("orders")
                orders.send(b'{"id": 1, "item": "pear", "count": 2}')
                assert reader.read_next(30_000).data() == b'{"order": 1, "cents": 90}'
            service.send_signal(signal.SIGINT)
            out, errors = service.communicate(timeout=30)
        finally:
            service.kill()
    assert (service.returncode, out, errors) == (0, "stopped\n", "")


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    programs = {path.name for path in EXAMPLES.glob("*.py")} - NOT_RUN_BY_ITSELF
    elsewhere = {path.name for path in EXAMPLES.glob("spark_*.py")}
    assert {name for name in programs - elsewhere if f'run("{name}")' not in text} == set()
