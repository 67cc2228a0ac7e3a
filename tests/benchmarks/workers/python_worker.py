"""A Python client under measurement: `python python_worker.py pulsar_actors`, or `pulsar` for the official one.

It reads a request from each line of its standard input, a JSON object, and answers with another one. Both clients run
the same code, so the figures are those of a program that is written for either of them. Times are seconds; those of a
whole run are from its first call to the last receipt or message.
"""

import contextlib
import gc
import importlib
import itertools
import json
import logging
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_MS = 60_000
SENT_AT_ONCE, RECEIVED_AT_ONCE = 10_000, 1000
"""The messages of one call that sends or receives many, at most."""


class Measured:
    """The wall and CPU seconds of a block."""

    def __enter__(self) -> "Measured":
        gc.collect()
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def resident() -> int:
    """Return the resident memory of the process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Worker:
    """One client and its requests."""

    def __init__(self, module: str) -> None:
        self.pulsar = importlib.import_module(module)
        silent = logging.getLogger("silent")
        silent.setLevel(logging.CRITICAL + 1)
        self._silent = silent
        self.client: Any = None
        self._loop: Any = None

    def connect(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Make the client, and return its description."""
        self._url = ask["url"]
        self.client = self.pulsar.Client(self._url, logger=self._silent)
        return self.describe(ask)

    def disconnect(self, _: dict[str, Any]) -> dict[str, Any]:
        """Close the client, before its broker ends."""
        self.client.close()
        return {}

    def describe(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return which interpreter runs the client, and whether this client is compiled."""
        ours = self.pulsar.__name__ == "pulsar_actors"
        compiled = ours and getattr(importlib.import_module("pulsar_actors.version"), "compiled", False)
        system = sys.base_prefix == "/usr"
        return {"python": platform.python_version(), "compiled": bool(compiled), "system": system}

    def produce(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Send messages to topics in turn; each thread sends its share."""
        producers = [self._producer(topic, ask["options"]) for topic in ask["topics"]]
        fields: dict[str, Any] = {}
        if "key" in ask:
            fields["partition_key"] = ask["key"]
        if "properties" in ask:
            fields["properties"] = ask["properties"]
        modes = {"callback": self._send_called_back, "future": self._send_futures, "many": self._send_many}
        send = modes[ask.get("mode", "callback")]
        threads = ask.get("threads", 1)
        share = ask["messages"] // threads
        given = (producers, share, ask["payload"].encode(), fields)
        with Measured() as took:
            if threads == 1:
                send(*given)
            else:
                everybody = [threading.Thread(target=send, args=given) for _ in range(threads)]
                for each in everybody:
                    each.start()
                for each in everybody:
                    each.join()
        held = resident()
        for each in producers:
            each.close()
        return {"messages": share * threads, "seconds": took.seconds, "cpu": took.cpu, "resident": held}

    def _send_called_back(self, producers: list[Any], messages: int, payload: bytes, fields: dict[str, Any]) -> None:
        done, ok, failures = threading.Event(), self.pulsar.Result.Ok, list[Any]()
        left = itertools.count(messages - 1, -1)

        def stored(result: Any, _: Any) -> None:
            if result != ok:
                failures.append(result)
            if not next(left):
                done.set()

        if len(producers) == 1 and not fields:  # as a program calls it: to unpack no fields takes time, too
            send = producers[0].send_async
            for _ in range(messages):
                send(payload, stored)
        else:
            sends = itertools.cycle([producer.send_async for producer in producers])
            for _ in range(messages):
                next(sends)(payload, stored, **fields)
        if not done.wait(PATIENCE_MS / 1e3):
            raise TimeoutError("not all was stored")
        if failures:
            raise RuntimeError(f"{len(failures)} failed, the first with {failures[0]}")

    def _send_futures(self, producers: list[Any], messages: int, payload: bytes, fields: dict[str, Any]) -> None:
        """Send with a future for each message: the client's own, or else one that a callback completes."""
        (producer,) = producers
        if hasattr(self.pulsar.Producer, "send_async") and self.pulsar.__name__ == "pulsar_actors":
            futures = [producer.send_async(payload, None, **fields) for _ in range(messages)]
        else:
            from concurrent.futures import Future  # noqa: PLC0415 - ours does not need it

            futures = []
            for _ in range(messages):
                future: Future[Any] = Future()
                futures.append(future)
                producer.send_async(
                    payload, lambda _, message_id, future=future: future.set_result(message_id), **fields
                )
        for each in futures:
            each.result(PATIENCE_MS / 1e3)

    def _send_many(self, producers: list[Any], messages: int, payload: bytes, _: dict[str, Any]) -> None:
        """Send so many messages by each call, and wait at the end."""
        (producer,) = producers
        calls = [producer.send_many([payload] * SENT_AT_ONCE) for _ in range(messages // SENT_AT_ONCE)]
        for each in calls:
            each.result(PATIENCE_MS / 1e3)

    def sync(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Send one message after the other; if asked, beside a thread that computes all the time."""
        producer, busy = self._producer(ask["topic"], ask["options"]), ask.get("busy", False)
        over = threading.Event()

        def compute() -> None:
            while not over.is_set():
                sum(range(1000))

        other = threading.Thread(target=compute)
        if busy:
            other.start()
        content, times = ask["payload"].encode(), []
        with Measured() as took:
            for _ in range(ask["messages"]):
                began = time.perf_counter()
                producer.send(content)
                times.append(time.perf_counter() - began)
        over.set()
        if busy:
            other.join()
        producer.close()
        return {"times": times} if busy else {"times": times, "messages": ask["messages"], "cpu": took.cpu}

    def consume(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Receive and acknowledge stored messages, or read them."""
        modes = {
            "receive": self._receive,
            "many": self._receive_many,
            "listener": self._listen,
            "read": self._read,
            "look": self._look,
        }
        consume = modes[ask.get("mode", "receive")]
        with Measured() as took:
            octets = consume(ask["topic"], ask["messages"], ask["options"])
        return {"messages": ask["messages"], "seconds": took.seconds, "cpu": took.cpu, "octets": octets}

    def _receive(self, topic: str, messages: int, options: dict[str, Any]) -> int:
        consumer = self._consumer(topic, options)
        receive, acknowledge, octets = consumer.receive, consumer.acknowledge, 0
        for _ in range(messages):
            message = receive(PATIENCE_MS)
            octets += len(message.data())
            acknowledge(message)
        consumer.close()
        return octets

    def _receive_many(self, topic: str, messages: int, options: dict[str, Any]) -> int:
        consumer = self._consumer(topic, options)
        left, octets = messages, 0
        while left:
            received = consumer.receive_many(RECEIVED_AT_ONCE, PATIENCE_MS)
            octets += sum(len(message.data()) for message in received)
            consumer.acknowledge(received)
            left -= len(received)
        consumer.close()
        return octets

    def _read(self, topic: str, messages: int, options: dict[str, Any]) -> int:
        reader = self.client.create_reader(topic, self.pulsar.MessageId.earliest, **options)
        read_next, octets = reader.read_next, 0
        for _ in range(messages):
            octets += len(read_next(PATIENCE_MS).data())
        reader.close()
        return octets

    def _look(self, topic: str, messages: int, options: dict[str, Any]) -> int:
        """Read messages with all fields that Spark has columns for, as far as the client has them."""
        reader = self.client.create_reader(topic, self.pulsar.MessageId.earliest, **options)
        read_next, octets = reader.read_next, 0
        for _ in range(messages):
            message = read_next(PATIENCE_MS)
            octets += len(message.data())
            _ = (message.message_id().serialize(), message.topic_name(), message.producer_name())
            _ = (message.partition_key(), message.ordering_key(), message.properties())
            _ = (message.publish_timestamp(), message.event_timestamp(), message.redelivery_count())
        reader.close()
        return octets

    def _listen(self, topic: str, messages: int, options: dict[str, Any]) -> int:
        done, left, octets = threading.Event(), itertools.count(messages - 1, -1), [0]

        def hear(consumer: Any, message: Any) -> None:
            octets[0] += len(message.data())
            consumer.acknowledge(message)
            if not next(left):
                done.set()

        consumer = self._consumer(topic, options, message_listener=hear)
        if not done.wait(PATIENCE_MS / 1e3):
            raise TimeoutError("not all has come")
        consumer.close()
        return octets[0]

    def asyncio_produce(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Await many sends at once: each of a `gather` of so many, or so many tasks that each await one at a time."""
        messages, at_once, payload = ask["messages"], ask["at_once"], ask["payload"].encode()
        client = self._asyncio_client()

        async def gather(send: Any) -> None:
            for _ in range(0, messages, at_once):
                await self._asyncio.gather(*(send(payload) for _ in range(at_once)))

        async def bounded(send: Any) -> None:
            left = iter(range(messages))

            async def work() -> None:
                for _ in left:
                    await send(payload)

            await self._asyncio.gather(*(work() for _ in range(at_once)))

        async def produce() -> Measured:
            producer = await client.create_producer(ask["topic"], **self._named(ask["options"]))
            with Measured() as took:
                await {"gather": gather, "bounded": bounded}[ask["mode"]](producer.send)
            await producer.close()
            return took

        took = self._loop.run_until_complete(produce())
        return {"messages": messages, "seconds": took.seconds, "cpu": took.cpu}

    def asyncio_consume(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Await the receipt of stored messages, one after the other, and perhaps acknowledge each."""
        client, acknowledges = self._asyncio_client(), ask["mode"] == "acknowledge"

        async def consume() -> int:
            earliest, octets = self.pulsar.InitialPosition.Earliest, 0
            consumer = await client.subscribe(ask["topic"], "measured", initial_position=earliest, **ask["options"])
            receive, acknowledge = consumer.receive, consumer.acknowledge
            for _ in range(ask["messages"]):
                message = await receive()
                octets += len(message.data())
                if acknowledges:
                    await acknowledge(message)
            await consumer.close()
            return octets

        with Measured() as took:
            octets = self._loop.run_until_complete(consume())
        return {"messages": ask["messages"], "seconds": took.seconds, "cpu": took.cpu, "octets": octets}

    def _asyncio_client(self) -> Any:
        """Make the client of one event loop, with the first request."""
        if self._loop is None:
            self._asyncio = importlib.import_module("asyncio")
            self._loop = self._asyncio.new_event_loop()
            module = importlib.import_module(f"{self.pulsar.__name__}.asyncio")

            async def connect() -> Any:
                return module.Client(self._url, logger=self._silent)

            self._asyncio_connected = self._loop.run_until_complete(connect())
        return self._asyncio_connected

    def latency(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Send at a rate and receive; time each message from the moment when it was due."""
        messages, rate, payload = ask["messages"], ask["rate"], ask["payload"]
        consumer = self._consumer(ask["topic"], {})
        producer = self._producer(ask["topic"], ask["options"])
        times: list[float] = []

        def receive() -> None:
            for _ in range(messages):
                message = consumer.receive(PATIENCE_MS)
                times.append(time.perf_counter() - float(message.data()[:20]))
                consumer.acknowledge(message)

        receiver = threading.Thread(target=receive)
        receiver.start()
        start = time.perf_counter() + 0.2
        for number in range(messages):
            due = start + number / rate
            while (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            producer.send_async((f"{due:.7f}".rjust(20) + payload[20:]).encode(), lambda *_: None)
        receiver.join()
        consumer.close()
        producer.close()
        return {"times": times}

    def hold_producers(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Return the memory of idle producers."""
        return self._held(lambda topic: self._producer(topic, {}), ask)

    def hold_consumers(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Return the memory of idle consumers."""
        return self._held(lambda topic: self._consumer(topic, {}), ask)

    def _held(self, make: Callable[[str], Any], ask: dict[str, Any]) -> dict[str, Any]:
        make(ask["topic"])  # and all that the first of them needs
        gc.collect()
        before = resident()
        kept = [make(f"{ask['topic']}-{number}") for number in range(ask["count"])]
        gc.collect()
        held = resident() - before
        del kept
        return {"bytes": held}

    def hold_messages(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Return the memory of pending messages, each with a payload of its own."""
        producer = self._producer(ask["topic"], ask["options"])
        producer.send_async(b"what is needed for the first one", _unheard)
        producer.flush()
        gc.collect()
        before = resident()
        for number in range(ask["count"]):
            producer.send_async(b"%d" % number + ask["payload"].encode(), _unheard)
        held = resident() - before
        producer.flush()
        return {"bytes": held}

    def crowd(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Return the memory and times of many producers and consumers, each with a message of its own."""
        make = (lambda topic: self._producer(topic, {})), (lambda topic: self._consumer(topic, {}))
        first = [one(f"{ask['topic']}-first") for one in make]  # and all that the first of them needs
        gc.collect()
        before = resident()
        with Measured() as made:
            pairs = [[one(f"{ask['topic']}-{number}") for one in make] for number in range(ask["count"])]
        held = resident() - before
        with Measured() as passed:
            for producer, _ in pairs:
                producer.send_async(b"one of many", _unheard)
            for _, consumer in pairs:
                consumer.acknowledge(consumer.receive(PATIENCE_MS))
        del first
        threads = len(list(Path("/proc/self/task").iterdir()))
        return {"making": made.seconds, "cpu": made.cpu, "passing": passed.seconds, "bytes": held, "threads": threads}

    def ready(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Create a producer for the next requests."""
        self.producer = self._producer(ask["topic"], ask["options"])
        self.producer.send(b"what is needed for the first one")
        return {}

    def overfill(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Send until the queue is full, each message with a payload of its own."""
        self.results: list[Any] = []
        ok, taken = self.pulsar.Result.Ok, 0
        gc.collect()
        before = resident()
        while not any(result != ok for result in self.results):
            self.producer.send_async(
                b"%9d" % taken + b"x" * (ask["size"] - 9), lambda result, _: self.results.append(result)
            )
            taken += 1
        return {"taken": taken - len(self.results), "bytes": resident() - before}

    def settle(self, _: dict[str, Any]) -> dict[str, Any]:
        """Wait for the receipts of these messages, and return how many were stored."""
        self.producer.flush()
        return {"stored": self.results.count(self.pulsar.Result.Ok)}

    def neglect(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Subscribe to a topic with many messages, receive none, and return the memory in the end."""
        gc.collect()
        before = most = resident()
        consumer = self._consumer(ask["topic"], ask["options"])
        still = time.monotonic() + 1.0
        while time.monotonic() < still:
            time.sleep(0.05)
            if resident() > most:
                most, still = resident(), time.monotonic() + 1.0
        consumer.close()
        return {"bytes": most - before}

    def values(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Decode one received message again and again."""
        kind, schemas = ask["schema"], self.pulsar.schema
        record = self._record()
        schema = schemas.StringSchema() if kind == "StringSchema" else getattr(schemas, kind)(record)
        text, number = "a text of some length", 4711
        content = text if kind == "StringSchema" else record(name=text, count=number, price=1.25, tags=["a", "b"])
        with contextlib.closing(self.client.create_producer(ask["topic"], schema=schema)) as producer:
            producer.send(content)
        reader = self.client.create_reader(ask["topic"], self.pulsar.MessageId.earliest, schema=schema)
        value, messages = reader.read_next(PATIENCE_MS).value, ask["messages"]
        with Measured() as took:
            for _ in range(messages):
                value()
        reader.close()
        return {"messages": messages, "seconds": took.seconds, "cpu": took.cpu}

    def _record(self) -> Any:
        schema = importlib.import_module(f"{self.pulsar.__name__}.schema")

        class Item(schema.Record):  # type: ignore[misc, name-defined]
            name = schema.String()
            count = schema.Integer()
            price = schema.Double()
            tags = schema.Array(schema.String())

        return Item

    def memory(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return the greatest memory that the process has had, in bytes."""
        return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def _producer(self, topic: str, options: dict[str, Any]) -> Any:
        return self.client.create_producer(topic, **self._named(options))

    def _consumer(self, topic: str, options: dict[str, Any], **more: Any) -> Any:
        earliest = self.pulsar.InitialPosition.Earliest
        return self.client.subscribe(topic, "measured", initial_position=earliest, **self._named(options), **more)

    def _named(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return options with enums instead of names."""
        if "compression_type" not in options:
            return options
        return {**options, "compression_type": getattr(self.pulsar.CompressionType, options["compression_type"])}


def _unheard(_: Any, __: Any) -> None:
    """Do nothing."""


def main(module: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the official client logs to the standard output as it ends
    worker = Worker(module)
    for line in sys.stdin:
        request = json.loads(line)
        do: Callable[[dict[str, Any]], dict[str, Any]] = getattr(worker, request["do"])
        print(json.dumps(do(request)), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
