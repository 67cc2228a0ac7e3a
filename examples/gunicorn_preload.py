"""Clients and forks: the mistake under a preloading server such as gunicorn, and the right way.

With `preload_app`, gunicorn imports the application once and forks its workers from that process. A client that was
created during the import belongs to the parent: the child has none of its threads, and its connections are the
parent's. In the child, every call on it raises ProcessForked at once, and the parent's connections stay as they are.

So each worker creates its own client, after the fork. For the application in `wsgi_visits.py`, a hook in
`gunicorn_hooks.py` does so. This program runs without gunicorn and forks by itself. It does not run on Windows, which
cannot fork.
"""

import os
import sys
from collections.abc import Callable

from where import fresh, service_url

import pulsar_actors as pulsar


def in_a_worker(name: str, work: Callable[[], object]) -> None:
    """Run a function in a forked child, and wait for the end of the child."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except pulsar.ProcessForked as error:
            print(f"{name}: ProcessForked: {error}")
        finally:
            sys.stdout.flush()
            os._exit(0)  # no cleanup of the parent's objects in the child
    os.waitpid(child, 0)


def send_with_a_client_of_its_own(url: str, topic: str) -> None:
    """Do a worker's work after the fork."""
    with pulsar.Client(url) as client:
        producer = client.create_producer(topic)
        producer.send(b"from a worker")
    print("worker with a client of its own: sent")


def main() -> None:
    """Try both ways in children, and show that the parent's client still works."""
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
