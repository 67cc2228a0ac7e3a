"""A worker on asyncio: ten jobs at a time in one process, and an end in good order.

Ten tasks take jobs from one consumer. A job is acknowledged when its result is stored. One that fails comes again, and
is a dead letter after the third time. When the worker is told to stop, by SIGTERM, by Ctrl-C or here by an event, no
task takes another job, and each finishes the one it has. Nothing is lost: what is not acknowledged is delivered again.
"""

import asyncio
import json
import signal
from contextlib import suppress

from where import fresh, service_url

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio

AT_ONCE = 10
JOBS = 40
TRIES = 3


async def price(job: pulsar.Message) -> bytes:
    """Do a job: ask another service for a price, which takes a while."""
    order = json.loads(job.data())
    await asyncio.sleep(0.05)
    return json.dumps({"job": order["job"], "cents": 15 * order["count"]}).encode()


async def take_jobs(jobs: pulsar_asyncio.Consumer, results: pulsar_asyncio.Producer) -> None:
    """Do one job after the other, until this is cancelled. A job that has begun is finished before that."""
    while True:
        job = await jobs.receive()  # if it is cancelled, no message is lost
        doing = asyncio.ensure_future(do(job, jobs, results))
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            await doing
            raise


async def do(job: pulsar.Message, jobs: pulsar_asyncio.Consumer, results: pulsar_asyncio.Producer) -> None:
    """Do a job, and acknowledge it once its result is stored."""
    try:
        await results.send(await price(job))
    except (ValueError, KeyError, pulsar.PulsarException) as fault:
        print(f"try {job.redelivery_count() + 1}: {type(fault).__name__}")
        await jobs.negative_acknowledge(job)
    else:
        await jobs.acknowledge(job)


async def work(url: str, jobs_topic: str, results_topic: str, stop: asyncio.Event) -> None:
    """Run the worker until it is told to stop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows has no such handlers
            loop.add_signal_handler(number, stop.set)
    async with pulsar_asyncio.Client(url) as client:
        results = await client.create_producer(results_topic)
        jobs = await client.subscribe(
            jobs_topic,
            "worker",
            pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=100,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(TRIES - 1),
        )
        tasks = [asyncio.create_task(take_jobs(jobs, results)) for _ in range(AT_ONCE)]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print("the worker has ended")


async def main(url: str) -> None:
    """Send jobs, one of which is none, and look at what becomes of them."""
    jobs_topic, results_topic = fresh("jobs"), fresh("prices")
    stop = asyncio.Event()
    async with pulsar_asyncio.Client(url) as client:
        prices = await client.subscribe(results_topic, "till")
        refused = await client.subscribe(f"{jobs_topic}-worker-DLQ", "manager")
        worker = asyncio.create_task(work(url, jobs_topic, results_topic, stop))
        jobs = await client.create_producer(jobs_topic)
        orders = [json.dumps({"job": number, "count": number}).encode() for number in range(JOBS)]
        await asyncio.gather(*(jobs.send(order) for order in [*orders, b"no job"]))
        done: set[int] = set()
        while len(done) < JOBS:
            message = await prices.receive()
            done.add(json.loads(message.data())["job"])
            await prices.acknowledge(message)
        letter = await refused.receive()
        print(f"{len(done)} jobs done; given up: {letter.data().decode()}")
        stop.set()
        await worker


if __name__ == "__main__":
    with service_url(__doc__) as address:
        asyncio.run(main(address))
