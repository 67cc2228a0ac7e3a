"""Accounts on a partitioned topic: the bookings of each account stay in order, with several workers.

The key of a message is its account. It chooses the partition, and also the worker, because the subscription is
KeyShared: each account has one worker at a time, so workers never share a balance. Workers may come and go. The broker
then assigns the accounts again, once the workers that had them have acknowledged their messages.

The producer batches by key here. Otherwise messages of many keys would share a batch, and a batch goes to one worker as
a whole.
"""

import threading
from collections import defaultdict

from where import addresses, fresh, make_partitioned

import pulsar_actors as pulsar

ACCOUNTS = [f"account-{number}" for number in range(20)]
BOOKINGS = 30


class Worker:
    """A worker, with the bookings that it has seen of each account."""

    def __init__(self) -> None:
        self.seen: defaultdict[str, list[int]] = defaultdict(list)

    def book(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        """Take one booking. The client calls this for one message after another."""
        self.seen[message.partition_key()].append(int(message.data()))
        consumer.acknowledge(message)
        BOOKED.release()


BOOKED = threading.Semaphore(0)


def main() -> None:
    """Subscribe two workers, send bookings, and print the accounts of each worker."""
    with addresses(__doc__) as (url, web_url), pulsar.Client(url, message_listener_threads=2) as client:
        topic, workers = fresh("bookings"), (Worker(), Worker())
        make_partitioned(web_url, topic, 4)
        for worker in workers:  # a consumer with a listener stays open until the client is closed
            client.subscribe(topic, "books", pulsar.ConsumerType.KeyShared, message_listener=worker.book)

        producer = client.create_producer(topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased)
        sent = [
            producer.send_async(str(number).encode(), partition_key=account)
            for number in range(BOOKINGS)
            for account in ACCOUNTS
        ]
        partitions = {future.result(timeout=30).partition() for future in sent}
        for _ in sent:
            if not BOOKED.acquire(timeout=30):
                raise SystemExit("not everything was booked")

        print(f"{len(sent)} bookings on {len(partitions)} partitions")
        for worker in workers:
            in_order = all(numbers == list(range(BOOKINGS)) for numbers in worker.seen.values())
            print(f"a worker had {len(worker.seen)} accounts, {'all in order' if in_order else 'OUT OF ORDER'}")


if __name__ == "__main__":
    main()
