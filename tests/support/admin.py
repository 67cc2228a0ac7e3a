"""The calls of Pulsar's admin REST interface that tests need, on the standard library alone."""

import json
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

ANSWER_SECONDS = 30.0
COORDINATORS = "persistent/pulsar/system/transaction_coordinator_assign"
"""The path of the topic whose partitions stand for the transaction coordinators."""


class AdminError(Exception):
    """An error response of the broker. `status` is the HTTP status."""

    def __init__(self, status: int, call: str, reason: str) -> None:
        super().__init__(f"{call}: {status} {reason}")
        self.status = status


def path_of(topic: str) -> str:
    """Return the path of a topic: `persistent://public/default/t` becomes `persistent/public/default/t`."""
    domain, _, rest = topic.partition("://")
    return f"{domain}/{rest}"


class Admin:
    """The admin interface of a cluster, by one of its brokers, with a token if they require one.

    Topics are given by their full names.
    """

    def __init__(self, web_url: str, token: str | None = None) -> None:
        self.web_url = web_url
        self._credentials = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._root = f"{web_url}/admin"

    def call(self, method: str, path: str, body: object = None, *, version: int = 2) -> bytes:
        """Make one call, such as `PUT persistent/public/default/t/unload`. Those for transactions have version 3."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._credentials}
        url = f"{self._root}/v{version}/{path}"
        while True:
            request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 -- an http URL of a test
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 -- as above
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    reason = error.read().decode(errors="replace")
                if error.code != HTTPStatus.TEMPORARY_REDIRECT:
                    raise AdminError(error.code, f"{method} {path}", reason) from None
                url = error.headers["Location"]  # another broker has the topic; urllib goes there by GET only

    def json(self, method: str, path: str, body: object = None, *, version: int = 2) -> Any:
        """Make one call whose answer is JSON."""
        return json.loads(self.call(method, path, body, version=version))

    def is_ready(self) -> bool:
        """Return whether the broker can serve the namespace `public/default`."""
        try:
            healthy = self.call("GET", "brokers/health") == b"ok"
            return healthy and "public/default" in self.json("GET", "namespaces/public")
        except (OSError, AdminError):
            return False

    def coordinators(self) -> int:
        """Return how many transaction coordinators there are: they come some time after the start of a real broker."""
        try:
            return int(self.json("GET", f"{COORDINATORS}/partitions")["partitions"])
        except AdminError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return 0

    def reload_coordinators(self) -> None:
        """Have the transaction coordinators read again what they have stored."""
        for number in range(self.coordinators()):
            self.call("PUT", f"{COORDINATORS}-partition-{number}/unload")

    def open_transactions(self, topic: str, subscription: str = "") -> Any:
        """Return the stats of a topic or a subscription where transactions are open; nothing where none are."""
        kind = "pendingAckStats" if subscription else "transactionBufferStats"
        path = path_of(topic).partition("/")[2] + f"/{subscription}" * bool(subscription)
        stats = self.json("GET", f"transactions/{kind}/{path}", version=3)
        is_known = stats["state"] in {"Ready", "NoSnapshot", "None"}
        return None if is_known and stats["ongoingTxnSize"] == 0 else stats

    def create(self, topic: str) -> None:
        """Create a topic without partitions."""
        self.call("PUT", path_of(topic))

    def create_partitioned(self, topic: str, partitions: int) -> None:
        """Create a topic with this number of partitions."""
        self.call("PUT", f"{path_of(topic)}/partitions", partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic to this number."""
        self.call("POST", f"{path_of(topic)}/partitions", partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic, even if producers or consumers use it."""
        self.call("DELETE", f"{path_of(topic)}?force=true")

    def unload(self, topic: str) -> None:
        """Let the broker close all producers and consumers of a topic, and load it again."""
        self.call("PUT", f"{path_of(topic)}/unload")

    def terminate(self, topic: str) -> None:
        """Terminate a topic: it takes no more messages."""
        self.call("POST", f"{path_of(topic)}/terminate")

    def compact(self, topic: str) -> None:
        """Keep the last message of each key, and wait until that is done."""
        self.call("PUT", f"{path_of(topic)}/compaction")
        deadline = time.monotonic() + ANSWER_SECONDS
        while (state := self.json("GET", f"{path_of(topic)}/compaction"))["status"] != "SUCCESS":
            if time.monotonic() > deadline:
                raise TimeoutError(state)
            time.sleep(0.05)

    def stats(self, topic: str) -> Any:
        """Return the topic's `/stats`."""
        return self.json("GET", f"{path_of(topic)}/stats")

    def cursors(self, topic: str) -> Any:
        """Return what the broker knows of the topic's subscriptions, with their positions."""
        return self._internal_stats(topic)["cursors"]

    def keeps_acknowledgements(self, topic: str, subscription: str) -> bool:
        """Return whether all messages are acknowledged, and still will be after an unload.

        A broker counts acknowledgements before it stores them. The first entry of a cursor's ledger has the position at
        which the cursor began, so acknowledgements are stored after that entry. A broker without such ledgers has no
        entry at all.
        """
        stats = self._internal_stats(topic)
        cursor = stats["cursors"][subscription]
        is_stored = cursor["state"] == "Open" and cursor["cursorLedgerLastEntry"] != 0
        return bool(is_stored and cursor["markDeletePosition"] == stats["lastConfirmedEntry"])

    def _internal_stats(self, topic: str) -> Any:
        return self.json("GET", f"{path_of(topic)}/internalStats")

    def skip_all(self, topic: str) -> None:
        """Move all subscriptions of a topic to its end, those of readers too, as a broker does when messages expire."""
        for subscription in self.stats(topic)["subscriptions"]:
            self.call("POST", f"{path_of(topic)}/subscription/{subscription}/skip_all")

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace, such as `public/mine`."""
        self.call("PUT", f"namespaces/{namespace}", {})

    def set_longest_delay(self, namespace: str, milliseconds: int) -> None:
        """Have the broker refuse messages with a longer delivery delay than this."""
        wanted = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": milliseconds}
        self.call("POST", f"namespaces/{namespace}/delayedDelivery", wanted)

    def set_deduplication(self, topic: str, *, on: bool) -> None:
        """Switch deduplication by sequence id on or off for one topic."""
        self.call("POST", f"{path_of(topic)}/deduplicationEnabled", on)

    def is_deduplicating(self, topic: str) -> bool:
        """Return whether the broker has put the setting into effect. The broker answers the request before that."""
        return self.stats(topic).get("deduplicationStatus") == "Enabled"

    def set_auto_creation(self, namespace: str, *, on: bool) -> None:
        """Choose whether the broker creates a topic of the namespace when a client first uses it."""
        settings = {"allowAutoTopicCreation": on, "topicType": "non-partitioned"}
        self.call("POST", f"namespaces/{namespace}/autoTopicCreation", settings)
