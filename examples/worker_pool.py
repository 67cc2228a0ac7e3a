"""A pool of worker processes that share one subscription: each job goes to one of them.

A worker acknowledges a job when its result is stored. One worker dies in the middle of its first job. The broker
delivers its unacknowledged jobs to the other workers, so all jobs are done. A job can be done twice: a worker may die
after it has sent the result and before it acknowledges the job. So results are counted by job.
"""

import multiprocessing
import os
from collections import Counter

from where import fresh, service_url

import pulsar_actors as pulsar

JOBS = 40


def work(url: str, jobs_topic: str, results_topic: str, *, is_unlucky: bool) -> None:
    """Run one worker: do jobs until the process is ended."""
    with pulsar.Client(url) as client:
        # A short queue: jobs in it wait for this worker, while other workers may be idle.
        jobs = client.subscribe(jobs_topic, "workers", pulsar.ConsumerType.Shared, receiver_queue_size=4)
        results = client.create_producer(results_topic)
        results.send(b"ready")
        for job in jobs:
            if is_unlucky:
                os._exit(1)  # as in a crash: nothing is sent to the broker
            number = int(job.data())
            results.send(str(number**2).encode(), properties={"worker": str(os.getpid()), "job": str(number)})
            jobs.acknowledge(job)


def main() -> None:
    """Start the workers, send the jobs, and collect the results."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        jobs_topic, results_topic = fresh("jobs"), fresh("results")
        results = client.subscribe(results_topic, "collector")
        processes = multiprocessing.get_context("spawn")  # a client does not survive a fork: see gunicorn_preload.py
        workers = [
            processes.Process(target=work, args=(url, jobs_topic, results_topic), kwargs={"is_unlucky": number == 0})
            for number in range(3)
        ]
        for worker in workers:
            worker.start()
        for _ in workers:
            results.acknowledge(results.receive(30_000))  # they are all ready

        jobs = client.create_producer(jobs_topic)
        for number in range(JOBS):
            jobs.send(str(number).encode())
        done: dict[str, str] = {}
        while len(done) < JOBS:
            result = results.receive(30_000)
            done.setdefault(result.properties()["job"], result.properties()["worker"])
            results.acknowledge(result)
        for worker in workers:
            worker.terminate()
            worker.join()
        for count in Counter(done.values()).values():
            print(f"a worker did {count} jobs")
        print(f"{len(done)} of {JOBS} jobs done; {len(set(done.values()))} of 3 workers lived to do any")


if __name__ == "__main__":
    main()
