import pytest

from tests.support.life import run_program

ALLOWED = 1.0
"""Seconds from the last act of a program to the end of its process; a bare interpreter takes some hundredths."""

ATTEMPTS = 4
"""A busy machine may delay one of them. What waits for something is late in each."""

BEGINNING = """
import sys, threading, time
import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend
broker = EmbeddedBroker()
broker.start()
client = pulsar.Client(broker.service_url, operation_timeout_seconds=30)

def until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
"""

STATES = {
    "unused": "",
    "idle": """
producer = client.create_producer("t")
consumer = client.subscribe("t", "s")
reader = client.create_reader("t", pulsar.MessageId.earliest)
producer.send(b"x")
""",
    "sending": """
producer = client.create_producer("t", batching_enabled=True, block_if_queue_full=True)
sent = threading.Event()
def send():
    while True:
        producer.send_async(b"x", lambda *_: sent.set())
threading.Thread(target=send, daemon=True).start()
assert sent.wait(10)
""",
    "waiting for a receipt": """
producer = client.create_producer("t")
fault = broker.faults.on(CommandSend, times=None).drop()
threading.Thread(target=producer.send, args=(b"x",), daemon=True).start()
fault.wait(1, 10)
""",
    "receiving": """
consumer = client.subscribe("t", "s")
threading.Thread(target=consumer.receive, daemon=True).start()
""",
    "listening": """
heard = threading.Event()
def listener(consumer, message):
    heard.set()
    time.sleep(60)
consumer = client.subscribe("t", "s", message_listener=listener)
client.create_producer("t").send(b"x")
assert heard.wait(10)
""",
    "reconnecting": """
producer = client.create_producer("t")
consumer = client.subscribe("t", "s")
broker.stop()
until(lambda: not producer.is_connected())
""",
    "creating without a broker": """
broker.stop()
creating = threading.Thread(target=client.create_producer, args=("t",), daemon=True)
creating.start()
until(lambda: sys._current_frames()[creating.ident].f_code.co_name == "wait")
""",
    "in a send callback": """
producer = client.create_producer("t")
called = threading.Event()
def callback(*_):
    called.set()
    time.sleep(60)
producer.send_async(b"x", callback)
assert called.wait(10)
""",
    "closing": """
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseProducer
fault = broker.faults.on(CommandCloseProducer, times=None).drop()
producer = client.create_producer("t")
threading.Thread(target=client.close, daemon=True).start()
fault.wait(1, 10)
""",
    "closed": """
producer = client.create_producer("t")
client.close()
""",
}


def seconds_to_end(text: str) -> tuple[float, str]:
    """Run a program that prints the time as its last act, and tell how long it took to end after that."""
    timer = f"import time\n{text}\nprint(time.monotonic(), flush=True)"
    done = run_program(
        f"""
import subprocess, sys, time
done = subprocess.run([sys.executable, "-c", {timer!r}], capture_output=True, text=True, timeout=25)
now = time.monotonic()
print(now - float(done.stdout.split()[-1]))
print(done.stderr, file=sys.stderr)
sys.exit(done.returncode)
"""
    )
    assert done.code == 0, done.err
    return float(done.out), done.err.strip()


@pytest.mark.parametrize("state", STATES)
def test_an_interpreter_ends_at_once_with_a_client_left_open(state: str) -> None:
    """On a busy machine the end of any interpreter takes long: then it is compared with one whose client is closed."""
    took = []
    for _ in range(ATTEMPTS):
        seconds, said = seconds_to_end(BEGINNING + STATES[state])
        assert not said
        if seconds < ALLOWED:
            return
        with_closed_client, _ = seconds_to_end(BEGINNING + STATES["closed"])
        if seconds < with_closed_client + ALLOWED:
            return
        took.append((seconds, with_closed_client))
    pytest.fail(f"it took so many seconds, and with a closed client so many: {took}")


def test_one_warning_names_the_producers_that_were_left_open() -> None:
    done = run_program(
        BEGINNING
        + """
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic
first = client.create_producer("first")
second = client.create_producer("second")
other = pulsar.Client(broker.service_url)
third = other.create_producer("third")
gone = other.create_producer("gone")
gone.close()
broker.faults.on(CommandLookupTopic, times=None).drop()
broker.cut_connections()
until(lambda: not first.is_connected())
""",
        options=("-W", "default::ResourceWarning"),
    )
    assert done.code == 0
    warnings = [line for line in done.err.splitlines() if "ResourceWarning: producers were left open" in line]
    assert len(warnings) == 1
    for name in ("first", "second", "third"):
        assert f"persistent://public/default/{name}" in warnings[0]
    assert "gone" not in warnings[0]


@pytest.mark.parametrize("ending", ["client.close()", "client.shutdown()", "del producer, client"])
def test_nothing_is_said_of_what_was_closed_or_given_up(ending: str) -> None:
    done = run_program(
        f"{BEGINNING}\nproducer = client.create_producer('t')\n{ending}\nbroker.stop()", options=("-W", "error")
    )
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_program_that_fails_ends_with_its_own_traceback_and_nothing_else() -> None:
    done = run_program(
        BEGINNING + "producer = client.create_producer('t')\nproducer.send(b'x')\nraise KeyError('mine')"
    )
    assert done.code == 1
    assert done.err.splitlines()[-1] == "KeyError: 'mine'"
    assert done.err.count("Traceback") == 1
    assert done.seconds < 10
