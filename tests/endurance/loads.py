"""The loads: a mixture for hours, many threads on one producer and one consumer, and many short lives."""

import threading
import time
from array import array
from collections.abc import Callable
from contextlib import closing

import pulsar_actors as pulsar
from pulsar_actors.exceptions import PulsarException

THREADS = 32
BLOCK_MS = 200
PACE = 0.001
WINDOW = 1000


class Counted:
    """Work that was done, by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.done = 0

    def add(self, amount: int = 1) -> None:
        with self._lock:
            self.done += amount


def _threads(functions: list[Callable[[], None]], errors: list[BaseException]) -> list[threading.Thread]:
    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - the caller looks at it
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(run,), daemon=True) for run in functions]
    for thread in threads:
        thread.start()
    return threads


class Mixture:
    """Producers, consumers, readers, table views and transactions, some of which come and go."""

    def __init__(self, service_url: str, name: str) -> None:
        self.counted = Counted()
        self.errors: list[BaseException] = []
        self._name = name
        self._stop = threading.Event()
        self._client = pulsar.Client(service_url)
        work = [self._send, self._send_unbatched, self._take, self._take, self._come_and_go, self._look]
        self._threads = _threads(work, self.errors)

    def stop(self, within: float) -> list[str]:
        """End all threads and the client. Return what went wrong."""
        self._stop.set()
        for thread in self._threads:
            thread.join(within)
        stuck = sum(thread.is_alive() for thread in self._threads)
        self._client.close()
        return [*map(repr, self.errors), *([f"{stuck} threads do not end"] if stuck else [])]

    def _send(self) -> None:
        with closing(self._client.create_producer(self._name, batching_enabled=True, block_if_queue_full=True)) as one:
            while not self._stop.wait(PACE):
                one.send_async(b"x" * 100, lambda result, _: self._told(result), partition_key="key")

    def _send_unbatched(self) -> None:
        with closing(self._client.create_producer(self._name, chunking_enabled=True)) as one:
            while not self._stop.wait(20 * PACE):
                one.send(b"y" * 10_000)
                self.counted.add()

    def _told(self, result: pulsar.Result) -> None:
        if result is not pulsar.Result.Ok:
            self.errors.append(PulsarException(f"a send ended with {result}"))
        self.counted.add()

    def _take(self) -> None:
        with closing(self._client.subscribe(self._name, "s", consumer_type=pulsar.ConsumerType.Shared)) as one:
            while not self._stop.is_set():
                try:
                    messages = one.receive_many(100, BLOCK_MS)
                except pulsar.Timeout:
                    continue
                for number, message in enumerate(messages):
                    if number % 50 == 49 and message.redelivery_count() == 0:
                        one.negative_acknowledge(message)
                    else:
                        one.acknowledge(message)

    def _come_and_go(self) -> None:
        while not self._stop.wait(0.1):
            with closing(self._client.create_producer(f"{self._name}-2")) as producer:
                with closing(self._client.subscribe(f"{self._name}-2", "s")) as consumer:
                    producer.send(b"z", partition_key="k")
                    consumer.acknowledge(consumer.receive(10_000))
                with self._client.new_transaction() as transaction:
                    producer.send(b"in a transaction", transaction=transaction)

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            with closing(self._client.create_reader(f"{self._name}-2", pulsar.MessageId.latest)) as reader:
                reader.has_message_available()


class ManyThreads:
    """32 threads that send through one producer, and 32 that receive from one consumer. Each message is counted."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.errors: list[BaseException] = []
        self.told, self.got = array("B"), array("B")
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._room = threading.Semaphore(THREADS * WINDOW)
        self._producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
        self._consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)

    def run(self, seconds: float) -> list[str]:
        """Run, and return what went wrong."""
        threads = _threads([self._send] * THREADS + [self._take] * THREADS, self.errors)
        time.sleep(seconds)
        self._stop.set()
        for thread in threads:
            thread.join(60.0)
        stuck = sum(thread.is_alive() for thread in threads)
        self._producer.flush()
        wrong = [*map(repr, self.errors[:5]), *([f"{stuck} threads do not end"] if stuck else [])]
        for what, counts in (("callbacks", self.told), ("deliveries", self.got)):
            odd = sum(each != 1 for each in counts)
            wrong += [f"{odd:,} of {len(counts):,} messages had not exactly one of: {what}"] if odd else []
        return wrong

    def _send(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                number = len(self.told)
                self.told.append(0)
                self.got.append(0)
            self._room.acquire()
            self._producer.send_async(str(number).encode(), lambda result, _, number=number: self._hear(number, result))

    def _hear(self, number: int, result: pulsar.Result) -> None:
        if result is not pulsar.Result.Ok:
            self.errors.append(PulsarException(f"a send ended with {result}"))
        with self._lock:
            self.told[number] += 1

    def _take(self) -> None:
        while True:
            try:
                message = self._consumer.receive(BLOCK_MS)
            except pulsar.Timeout:
                if self._stop.is_set():
                    return
                continue
            with self._lock:
                self.got[int(message.data())] += 1
            self._consumer.acknowledge(message)
            self._room.release()


def short_lives(service_url: str, topic: str, cycles: int, look: Callable[[int], None]) -> None:
    """Create and close producers, consumers, and now and then a whole client."""
    client = pulsar.Client(service_url)
    for cycle in range(cycles):
        producer = client.create_producer(topic)
        consumer = client.subscribe(topic, "s")
        producer.send(b"x")
        consumer.acknowledge(consumer.receive(10_000))
        producer.close()
        consumer.close()
        if cycle % 100 == 0:
            client.close()
            client = pulsar.Client(service_url)
        look(cycle)
    client.close()
