"""Each test runs a program that forks. Its broker is in this process, and sees all that reaches it."""

from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.life import Ran, run_program

BEGINNING = """
import gc, os, signal, sys, threading, time
import pulsar_actors as pulsar

SERVICE_URL = sys.argv[1]
SOON = 10


def in_child(function, leave=os._exit):
    # Run it in a forked child, and demand that it ends well, in time.
    child = os.fork()
    if child == 0:
        signal.alarm(SOON)
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        leave(code)
    return child


def end_well(child):
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"


def refuses(call):
    try:
        call()
    except pulsar.ProcessForked as refusal:
        assert "make a new Client" in str(refusal)
    else:
        raise AssertionError("it was not refused")


client = pulsar.Client(SERVICE_URL, operation_timeout_seconds=SOON)
producer = client.create_producer("t")
consumer = client.subscribe("t", "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(1, -1, -1))
reader = client.create_reader("t", pulsar.MessageId.earliest)
listening = client.subscribe("u", "s", message_listener=lambda *_: None)
producer.send(b"before")
message = consumer.receive(SOON * 1000)
transaction = client.new_transaction()


def calls():
    return [
        lambda: client.create_producer("v"),
        lambda: client.subscribe("v", "s"),
        lambda: client.create_reader("v", pulsar.MessageId.earliest),
        lambda: client.get_topic_partitions("v"),
        client.stats,
        client.shutdown,
        client.close,
        lambda: client.__exit__(None, None, None),
        lambda: producer.send(b"x"),
        lambda: producer.send_async(b"x").result(),
        producer.flush,
        producer.stats,
        producer.close,
        consumer.receive,
        lambda: consumer.receive(10),
        lambda: consumer.receive_async().result(),
        consumer.batch_receive,
        lambda: next(iter(consumer)),
        lambda: consumer.acknowledge(message),
        lambda: consumer.acknowledge_cumulative(message),
        lambda: consumer.negative_acknowledge(message),
        consumer.redeliver_unacknowledged_messages,
        lambda: consumer.seek(pulsar.MessageId.earliest),
        consumer.get_last_message_id,
        consumer.unsubscribe,
        consumer.stats,
        consumer.close,
        reader.read_next,
        lambda: reader.read_next_async().result(),
        reader.has_message_available,
        lambda: reader.seek(0),
        reader.close,
        listening.pause_message_listener,
        listening.resume_message_listener,
        listening.close,
        client.new_transaction,
        lambda: producer.send(b"x", transaction=transaction),
        lambda: consumer.acknowledge(message, transaction=transaction),
        transaction.commit,
        transaction.abort,
    ]


def refused():
    for call in calls():
        refuses(call)
    assert not producer.is_connected()
    assert not consumer.is_connected()


def parent_goes_on():
    with client.new_transaction() as other:
        producer.send(b"committed", transaction=other)
    producer.send(b"after")
    consumer.acknowledge(message)
    while consumer.receive(SOON * 1000).data() != b"after":
        pass
    while reader.read_next(SOON * 1000).data() != b"after":
        pass


def new_client():
    with pulsar.Client(SERVICE_URL, operation_timeout_seconds=SOON) as other:
        topic = f"child-{os.getpid()}"
        receiver = other.subscribe(topic, "s")
        other.create_producer(topic).send(b"mine")
        assert receiver.receive(SOON * 1000).data() == b"mine"
"""

ENDING = """
client.close()
print("well")
"""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def run(broker: EmbeddedBroker, text: str, *options: str) -> Ran:
    text = BEGINNING + text + ENDING
    done = run_program(text, broker.service_url, options=("-W", "ignore::DeprecationWarning", *options), within=90)
    assert (done.code, done.out, done.err) == (0, "well\n", "")
    return done


def test_in_a_child_nobody_waits_for_what_was_pending_and_in_the_parent_it_comes(broker: EmbeddedBroker) -> None:
    run(
        broker,
        """
one_message = pulsar.ConsumerBatchReceivePolicy(1, 1_000_000, 60_000)
seen = client.subscribe("t", "s2", interceptors=[pulsar.ConsumerInterceptor()], batch_receive_policy=one_message)
promised = [consumer.receive_async(), reader.read_next_async(), seen.receive_async(), seen.batch_receive_async()]
promised[1].result(SOON)
promised[1] = reader.read_next_async()


def forsaken():
    for future in promised:
        refuses(future.result)
        refuses(lambda: future.exception(SOON))


end_well(in_child(forsaken))
sent = producer.send_async(b"sent")
sent.result(SOON)
end_well(in_child(sent.result))
assert [future.result(SOON).data() for future in promised[:3]] == [b"sent"] * 3
producer.send(b"more")
assert [message.data() for message in promised[3].result(SOON)] == [b"more"]
parent_goes_on()
""",
    )


def test_a_child_says_nothing_to_the_parents_broker(broker: EmbeddedBroker) -> None:
    spoken: list[str] = []

    def listen(seen: Any) -> None:
        spoken.append(type(seen.command).__name__)

    broker.faults.control(listen)
    run(
        broker,
        """
producer.send(b"the child begins")
time.sleep(0.3)  # acknowledgements and permits of before have left


def live_and_die():
    refused()
    global client, producer, consumer, reader, listening
    del client, producer, consumer, reader, listening
    gc.collect()


client.get_topic_partitions("marker")
end_well(in_child(live_and_die, sys.exit))
client.get_topic_partitions("marker")
""",
    )
    marker = "CommandPartitionedTopicMetadata"
    places = [place for place, name in enumerate(spoken) if name == marker]
    assert spoken[places[-2] + 1 : places[-1]] == [marker + "Response"]


def test_a_child_of_a_child_is_refused_too_and_can_make_its_own(broker: EmbeddedBroker) -> None:
    run(
        broker,
        """
def child():
    own = pulsar.Client(SERVICE_URL, operation_timeout_seconds=SOON)
    own_producer = own.create_producer("t")

    def grandchild():
        refused()
        refuses(lambda: own_producer.send(b"x"))
        refuses(own.close)
        new_client()

    end_well(in_child(grandchild))
    own_producer.send(b"x")
    own.close()


end_well(in_child(child))
parent_goes_on()
""",
    )


def test_a_child_that_exits_as_programs_do_harms_nothing_and_says_nothing(broker: EmbeddedBroker) -> None:
    run(
        broker,
        "for _ in range(5): end_well(in_child(refused, sys.exit) or sys.exit())\nparent_goes_on()",
        "-W",
        "default::ResourceWarning",
    )


def test_a_child_can_only_make_a_new_client_and_the_parents_goes_on_with_its_epoll_set_as_it_was(
    broker: EmbeddedBroker,
) -> None:
    run(
        broker,
        """
from pathlib import Path


def watched():
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    sets = [link for link in links if "eventpoll" in os.readlink(link)]
    return sorted(
        line for link in sets for line in Path("/proc/self/fdinfo", link.name).read_text().splitlines() if "tfd" in line
    )


before = watched()
assert len(before) >= 2
end_well(in_child(lambda: (refused(), new_client())))
assert watched() == before
parent_goes_on()
new_client()
""",
    )


def test_a_child_inherits_no_socket_of_the_parents(broker: EmbeddedBroker) -> None:
    run(
        broker,
        """
from pathlib import Path


def none_left():
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if link.startswith("socket:") or "eventpoll" in link], links


end_well(in_child(none_left))
""",
    )


def test_a_fork_at_any_moment_of_other_threads_work_is_survived(broker: EmbeddedBroker) -> None:
    run(
        broker,
        """
over, failures = threading.Event(), []


def work(number):
    try:
        while not over.is_set():
            with client.create_producer(f"busy-{number}", batching_enabled=True) as busy:
                for _ in range(20):
                    busy.send_async(b"x", lambda *_: None)
                busy.send(b"y")
            with client.create_reader(f"busy-{number}", pulsar.MessageId.earliest) as one:
                one.read_next(SOON * 1000)
            pulsar.Client(SERVICE_URL).close()
    except BaseException as failure:
        failures.append(failure)


def lightly():
    refuses(lambda: client.create_producer("v"))
    refuses(lambda: producer.send(b"x"))
    refuses(consumer.receive)
    refuses(client.close)


workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for worker in workers:
    worker.start()
for number in range(200):
    end_well(in_child(new_client if number % 20 == 7 else lightly, sys.exit if number % 20 == 0 else os._exit))
    assert not failures, failures
over.set()
for worker in workers:
    worker.join(SOON)
    assert not worker.is_alive()
parent_goes_on()
""",
    )


LOCKS = {
    "the registry of actors": "__import__('pykka').ActorRegistry._actor_refs_lock",
    "the client": "client._shutdown._lock",
    "the send_queue": "producer._state.send_queue._lock",
    "the hand-off queue": "consumer._receiver_queue._lock",
    "the reader's queue": "reader._state.receiver_queue._lock",
    "a call's future": "producer._state.link.ended._lock",
    "the listeners' thread": "client._engine.workers[0]._lock",
    "logging": "__import__('logging')._lock",
    "a handler of the log": "__import__('logging').getLogger('pulsar_actors').handlers[0].lock or threading.Lock()",
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_fork_while_a_lock_is_held_blocks_no_child(broker: EmbeddedBroker, lock: str) -> None:
    run(
        broker,
        f"""
lock = {LOCKS[lock]}
held, let_go = threading.Event(), threading.Event()


def hold():
    with lock:
        held.set()
        let_go.wait(SOON)


holder = threading.Thread(target=hold)
if {lock.endswith(("logging", "log"))}:  # logging itself waits for these before a fork
    lock = threading.Lock()
holder.start()
assert held.wait(SOON)
child = in_child(lambda: (refused(), new_client()))
let_go.set()
end_well(child)
parent_goes_on()
""",
    )
