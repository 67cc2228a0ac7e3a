"""Clients and forks: what goes wrong under a preloading server such as gunicorn, and how it goes right.

With `preload_app`, gunicorn imports the application once and forks its workers off that process. A client that was made
during the import belongs to the parent: its threads are not in the child, and its connections are the parent's. In the
child it refuses every call with ProcessForked, at once, and the parent's connections stay as they are. So each worker
makes a client of its own, after the fork: for the application in `wsgi_visits.py`, `gunicorn.conf.py` beside it has the
hook that does so.

This runs without gunicorn: it forks by itself. It needs a system that can fork, so it does not run on Windows.
"""

import os
import sys
from collections.abc import Callable

from where import fresh, service_url

import pulsar_actors as pulsar


def in_a_worker(name: str, work: Callable[[], object]) -> None:
    """Do something in a forked child, and wait for its end."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except pulsar.ProcessForked as error:
            print(f"{name}: ProcessForked: {error}")
        finally:
            sys.stdout.flush()
            os._exit(0)  # nothing of the parent's is tidied up here
    os.waitpid(child, 0)


def send_with_a_client_of_its_own(url: str, topic: str) -> None:
    """Do what a worker does after the fork."""
    with pulsar.Client(url) as client:
        producer = client.create_producer(topic)
        producer.send(b"from a worker")
    print("worker with a client of its own: sent")


def main() -> None:
    """Try both in children, and see that the parent has noticed nothing."""
    with service_url(__doc__) as url, pulsar.Client(url) as client:
        topic = fresh("visits")
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        producer = client.create_producer(topic)
        producer.send(b"from the parent, before the forks")

        in_a_worker("worker with the parent's client", lambda: producer.send(b"never arrives"))
        in_a_worker("worker", lambda: send_with_a_client_of_its_own(url, topic))

        producer.send(b"from the parent, after the forks")
        while reader.has_message_available():
            print(f"stored: {reader.read_next().data().decode()}")


if __name__ == "__main__":
    main()
