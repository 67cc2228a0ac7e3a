"""What the compiled modules must not change, for programs and for those who look for a fault: it holds for both builds.

Here are only such tests. That compiled modules do the same as pure ones is shown by all other tests.
"""

import ast
import contextlib
import copy
import gc
import os
import pickle
import re
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors import version
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.wire.batch import split_batch
from pulsar_actors.wire.PulsarApi_pb2 import CommandSendReceipt
from tests.support.life import MILLISECONDS, run_program, until, waits_in_the_client

ROOT = Path(__file__).parents[1]
LISTED = re.findall(
    r'"(.*?)"', (ROOT / "pyproject.toml").read_text().partition("\ncompiled = [\n")[2].partition("\n]\n")[0]
)
SOURCES = Path(pulsar.__file__).parent


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        yield client


@pytest.fixture
def message(client: pulsar.Client) -> pulsar.Message:
    """A received message of a batch."""
    consumer = client.subscribe("t", "s")
    client.create_producer("t", batching_enabled=True).send(b"x", partition_key="k")
    return consumer.receive(MILLISECONDS)


def source_of(module: str) -> Path:
    return (SOURCES.parent / module.replace(".", "/")).with_suffix(".py")


# The list.


@pytest.mark.parametrize("module", LISTED)
def test_the_version_tells_whether_the_listed_modules_are_compiled(module: str) -> None:
    file = import_module(module).__file__
    assert file is not None
    assert version.compiled == (not file.endswith(".py"))


def test_nothing_else_is_compiled() -> None:
    others = [name for name, one in sys.modules.items() if name.startswith("pulsar_actors.") and name not in LISTED]
    files = {name: getattr(sys.modules[name], "__file__", None) or ".py" for name in others}
    assert [name for name, file in files.items() if not file.endswith(".py")] == []


@pytest.mark.parametrize("module", LISTED)
def test_no_chart_is_compiled(module: str) -> None:
    assert "CHART" not in source_of(module).read_text()


def native_classes(module: ModuleType) -> list[type]:
    """The classes of a module that are native; mypyc gives each of them a list of its attributes."""
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__ and "__mypyc_attrs__" in vars(one)
    ]


@pytest.mark.parametrize("module", LISTED)
def test_no_native_class_has_a_base_that_is_not_native(module: str) -> None:  # its weak references would crash
    for kind in native_classes(import_module(module)):
        allowed = [base for base in kind.__mro__ if "__mypyc_attrs__" in vars(base) or base.__module__ in OF_PYTHON]
        assert allowed == list(kind.__mro__)


OF_PYTHON = {"builtins", "abc", "typing"}


@pytest.mark.parametrize("module", LISTED)
def test_no_field_of_a_named_tuple_has_a_type_that_mypyc_does_not_find(
    module: str,
) -> None:  # the module could not be loaded
    classes = [one for one in ast.walk(ast.parse(source_of(module).read_text())) if isinstance(one, ast.ClassDef)]
    tuples = [one for one in classes if "NamedTuple" in map(ast.unparse, one.bases)]
    fields = [field for one in tuples for field in one.body if isinstance(field, ast.AnnAssign)]
    assert [ast.unparse(one) for one in fields if ast.unparse(one.annotation) in {"object", "memoryview"}] == []


# Tracebacks.


def frames_of(call: Callable[[], object]) -> list[tuple[str, str, str]]:
    """The frames of the error that a call raises, from the call on: file, function, and the line of the source."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any
        call()
    found = list[tuple[str, str, str]]()
    for frame in traceback.extract_tb(raised.value.__traceback__)[1:]:
        file = frame.filename.rpartition("pulsar_actors/")[2]
        if "pulsar_actors/" in frame.filename and "tests" not in Path(file).parts:
            line = (SOURCES / file).read_text().splitlines()[(frame.lineno or 0) - 1]
            found.append((file, frame.name, line.strip()))
    return found


def test_a_traceback_names_files_functions_and_lines() -> None:
    assert frames_of(lambda: split_batch(b"", 1)) == [
        ("wire/batch.py", "split_batch", "metadata, payloads, _ = split_columns(payload, count)"),
        ("wire/batch.py", "split_columns", "raise MalformedBatch(what, begin, octets)"),
    ]


def test_a_traceback_goes_through_compiled_and_other_modules() -> None:
    files = [file for file, _, _ in frames_of(lambda: pulsar.MessageId(ledger_id="x"))]  # type: ignore[arg-type]
    assert files == ["client/message_id.py", "client/validation.py"]


def test_a_refused_argument_is_named() -> None:
    for wrong in ({"ledger_id": "x"}, {"entry_id": 1.5}, {"partition": None}):
        (name,) = wrong
        with pytest.raises(pulsar.InvalidArgument, match=f"^{name} takes"):
            pulsar.MessageId(**wrong)  # type: ignore[arg-type]


# Pickles and copies.


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["made", "received", "earliest"])
def test_an_id_is_the_same_from_its_pickle(kind: str, protocol: int, message: pulsar.Message) -> None:
    message_id = {
        "made": pulsar.MessageId(1, 2, 3, 4),
        "received": message.message_id(),
        "earliest": pulsar.MessageId.earliest,
    }[kind]
    for twin in (pickle.loads(pickle.dumps(message_id, protocol)), copy.copy(message_id), copy.deepcopy(message_id)):  # noqa: S301 - ours
        assert (twin, twin.topic_name(), type(twin)) == (message_id, message_id.topic_name(), pulsar.MessageId)


def test_an_id_of_a_sent_message_is_the_same_from_its_pickle(client: pulsar.Client) -> None:
    heard: list[pulsar.MessageId] = []
    producer = client.create_producer("t", batching_enabled=True)
    for _ in range(2):
        producer.send_async(b"x", lambda _, message_id: heard.append(message_id))
    producer.flush()
    twins = [pickle.loads(pickle.dumps(one)) for one in heard]  # noqa: S301 - ours
    assert (twins, [one.batch_index() for one in twins]) == (heard, [0, 1])


def test_both_builds_read_the_pickles_of_the_other() -> None:
    written = (
        b"\x80\x02cpulsar_actors.client.message_id\n_restored\nq\x00cpulsar_actors.client.message_id\nMessageId\nq\x01cp"
        b"ulsar_actors.wire.message_id\nMessageId\nq\x02(K\x02K\x03K\x01K\x04K\x00Ntq\x03\x81q\x04N\x87q\x05Rq\x06."
    )
    assert pickle.dumps(pulsar.MessageId(1, 2, 3, 4), 2) == written
    assert pickle.loads(written) == pulsar.MessageId(1, 2, 3, 4)  # noqa: S301 - ours


def test_a_handle_is_not_pickled(client: pulsar.Client) -> None:
    for handle in (client.create_producer("t"), client.subscribe("t", "s")):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(handle)


# Weak references, and the end of handles that are forgotten.


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_handle_that_is_forgotten_closes(kind: str, broker: EmbeddedBroker, client: pulsar.Client) -> None:
    make: dict[str, Callable[[], Any]] = {
        "producer": lambda: client.create_producer("t"),
        "consumer": lambda: client.subscribe("t", "s"),
    }
    handle = make[kind]()
    reference = weakref.ref(handle)
    assert reference() is handle
    del handle
    gc.collect()
    assert reference() is None
    client.create_producer("t", access_mode=pulsar.ProducerAccessMode.Exclusive)  # and no other is there
    client.subscribe("t", "s")


def test_messages_and_ids_have_no_weak_references(message: pulsar.Message) -> None:  # as they take little memory
    for one in (message, message.message_id()):
        with pytest.raises(TypeError, match="weak reference"):
            weakref.ref(one)


# What programs and their tests replace.


def test_calls_of_handles_and_messages_can_be_replaced(
    client: pulsar.Client, message: pulsar.Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "other")
    monkeypatch.setattr(pulsar.Producer, "send_async", lambda _, content: ("sent", content))
    assert producer.send_async(b"x") == ("sent", b"x")  # type: ignore[comparison-overlap]
    monkeypatch.setattr(producer, "send_async", lambda content: ("by this one", content))
    assert producer.send_async(b"x") == ("by this one", b"x")  # type: ignore[comparison-overlap]
    monkeypatch.setattr(pulsar.Consumer, "receive", lambda _, timeout_millis: timeout_millis)
    assert consumer.receive(5) == 5  # type: ignore[comparison-overlap]
    monkeypatch.setattr(consumer, "acknowledge", lambda message: message)
    assert consumer.acknowledge(message) is message  # type: ignore[func-returns-value, comparison-overlap]
    monkeypatch.setattr(pulsar.Message, "data", lambda _: b"replaced")
    assert message.data() == b"replaced"
    monkeypatch.undo()
    assert message.data() == b"x"
    producer.send(b"again")
    assert consumer.receive(MILLISECONDS).data() == b"again"


def test_attributes_that_a_class_does_not_have_are_not_added(message: pulsar.Message) -> None:
    for one in (message, message.message_id()):
        with pytest.raises(AttributeError):
            one.mine = 1  # type: ignore[attr-defined]


# Subclasses.


class Position(pulsar.MessageId):
    def described(self) -> str:
        return f"entry {self.entry_id()} for {self.reader}"

    def __str__(self) -> str:
        return f"{self.ledger_id()}/{self.entry_id()}"

    reader = "nobody"


def test_a_subclass_of_an_id_overrides_and_adds() -> None:
    position = Position(ledger_id=1, entry_id=2)
    position.reader = "me"
    assert (position.described(), str(position), position) == ("entry 2 for me", "1/2", pulsar.MessageId(-1, 1, 2))
    twin = pickle.loads(pickle.dumps(position))  # noqa: S301 - ours
    assert (type(twin), twin.reader, twin) == (Position, "me", position)


class Shouted(pulsar.Message):
    def data(self) -> bytes:
        return super().data().upper()


def test_a_subclass_of_a_message_overrides(message: pulsar.Message) -> None:
    shouted = Shouted()
    for name in ("_payload", "_stored", "_opened", "_index"):
        setattr(shouted, name, getattr(message, name))
    assert (shouted.data(), shouted.partition_key(), shouted.message_id()) == (b"X", "k", message.message_id())


def test_a_subclass_of_a_handle_overrides(client: pulsar.Client) -> None:
    sent = list[object]()

    class Counting(pulsar.Producer):
        def send_async(self, content: object, *args: Any, **options: Any) -> Any:
            sent.append(content)
            return super().send_async(content, *args, **options)

    producer = client.create_producer("t")
    producer.__class__ = Counting
    done = producer.send_async(b"x")
    assert done is not None
    assert (done.result(MILLISECONDS).entry_id(), sent) == (0, [b"x"])


# Ctrl-C.


@pytest.fixture
def pressed() -> Iterator[Callable[[], None]]:
    """A function that presses Ctrl-C a moment later, when this thread is blocked."""
    main = threading.main_thread().ident or 0
    assert threading.get_ident() == main
    presses: list[threading.Thread] = []

    def press() -> None:
        until(lambda: waits_in_the_client(sys._current_frames().get(main)))
        signal.pthread_kill(main, signal.SIGINT)

    def begin() -> None:
        presses.append(threading.Thread(target=press))
        presses[-1].start()

    yield begin
    for one in presses:
        one.join()


def test_ctrl_c_ends_a_blocked_receive(client: pulsar.Client, pressed: Callable[[], None]) -> None:
    consumer = client.subscribe("t", "s")
    pressed()
    with pytest.raises(KeyboardInterrupt):
        consumer.receive()
    client.create_producer("t").send(b"x")
    assert consumer.receive(MILLISECONDS).data() == b"x"


def test_ctrl_c_ends_a_send_that_waits_for_room(
    broker: EmbeddedBroker, client: pulsar.Client, pressed: Callable[[], None]
) -> None:
    producer = client.create_producer("t", max_pending_messages=1, block_if_queue_full=True)
    stalled = broker.faults.on(CommandSendReceipt).stall()
    first = producer.send_async(b"first")
    pressed()
    with pytest.raises(KeyboardInterrupt):
        producer.send_async(b"second")
    stalled.release()
    assert first is not None
    assert first.result(MILLISECONDS).entry_id() == 0


STRUCK = """
import signal, threading
import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker

with EmbeddedBroker() as broker:
    client = pulsar.Client(broker.service_url)
    producer = client.create_producer("t", batching_enabled=True, block_if_queue_full=True)
    sending = threading.Event()
    threading.Thread(target=lambda: (sending.wait(), signal.raise_signal(signal.SIGINT))).start()
    try:
        while True:
            producer.send_async(b"x", lambda *_: sending.set())
    except KeyboardInterrupt:
        producer.flush()
        print("heard", producer.stats().pending)
    client.close()
"""


def test_ctrl_c_is_heard_by_a_loop_that_only_sends() -> None:
    done = run_program(STRUCK, within=60)
    assert (done.code, done.out) == (0, "heard 0\n"), done.err


# Forks.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_refused_at_once_and_the_parent_goes_on(client: pulsar.Client) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    calls: list[Callable[[], object]] = [
        lambda: producer.send_async(b"x"),
        lambda: producer.send(b"x"),
        lambda: consumer.receive(0),
        lambda: consumer.acknowledge(pulsar.MessageId(ledger_id=1, entry_id=1)),
    ]
    child = os.fork()
    if not child:
        refused = 0
        for call in calls:
            with contextlib.suppress(pulsar.exceptions.ProcessForked):
                call()
                continue
            refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    producer.send(b"x")
    assert consumer.receive(MILLISECONDS).data() == b"x"
