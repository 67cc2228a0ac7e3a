"""What is asked of a real broker and of ours, in this order, to see that they answer alike.

`record.py` has the conversation with a real broker and writes down its answers; `test_against_real_answers.py` has it
with the embedded one. A step is a request, or something that an official client does in between; words in braces are
filled in with what the client has learnt. SHAPE compares the names of fields and the types of values, VALUE the values
too, STATUS neither.
"""

import http.client
import json
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pulsar


class Compared(Enum):
    STATUS = 1
    SHAPE = 2
    VALUE = 3


STATUS, SHAPE, VALUE = Compared

ADMIN = "/admin/v2"
NAMESPACE = f"{ADMIN}/namespaces/public/default"
TOPICS = f"{ADMIN}/persistent/public/default"
SCHEMAS = f"{ADMIN}/schemas/public/default"
NOTHING = object()


class Ask(NamedTuple):
    method: str
    path: str
    body: Any = NOTHING
    compare: Compared = SHAPE
    kind: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}" + ("" if self.body is NOTHING else f" {self.sent()}")

    def sent(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


class Official:
    """The official client, and what it has learnt."""

    def __init__(self, service_url: str) -> None:
        self.client = pulsar.Client(
            service_url, operation_timeout_seconds=10, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        self.is_open = True
        self.facts: dict[str, Any] = {}
        self.producers: dict[str, Any] = {}

    def fill(self, text: str) -> str:
        return re.sub(
            r"\{(\w+)\}", lambda match: str(self.facts[match[1]]) if match[1] in self.facts else match[0], text
        )


Act = Callable[[Official], None]


def ask(port: int, step: Ask, official: Official) -> dict[str, Any]:
    """Send it, and write down as much of the answer as is compared."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": step.kind} if step.kind else {}
    body = None if step.body is NOTHING else official.fill(step.sent()).encode()
    try:
        connection.request(step.method, official.fill(step.path), body, headers)
        response = connection.getresponse()
        return answer_of(step, response, response.read())
    finally:
        connection.close()


def answer_of(step: Ask, response: http.client.HTTPResponse, body: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = {"status": response.status}
    if step.compare is STATUS:
        return answer
    try:
        value = json.loads(body) if body else None
    except ValueError:
        value = body.decode("latin-1")
    if isinstance(value, list):
        value.sort()  # they are lists of names, and Pulsar gives them in any order
    answer["body"] = shape_of(value) if step.compare is SHAPE else value
    headers = {
        name: "" if name in VOLATILE_HEADERS else text
        for name, text in response.getheaders()
        if name.startswith("X-Pulsar")
    }
    return {**answer, "headers": headers} if headers else answer


VOLATILE_HEADERS = {"X-Pulsar-Message-ID", "X-Pulsar-publish-time", "X-Pulsar-deliver-at-time"}


def shape_of(value: Any) -> Any:
    """What is left of a value without what differs from run to run: the names of fields, and types."""
    if isinstance(value, dict):
        return {name: shape_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape_of(each) for each in value[:1]]
    return type(value).__name__


def send_ten(official: Official) -> None:
    producer = official.client.create_producer(
        "s1", producer_name="prod", properties={"pa": "pb"}, schema=pulsar.schema.StringSchema()
    )
    consumer = official.client.subscribe("s1", "sub", pulsar.ConsumerType.Shared, consumer_name="cons")
    for number in range(10):
        sent = producer.send(
            f"m{number}", partition_key=f"k{number}", properties={"i": str(number)}, event_timestamp=123 + number
        )
        official.facts[f"E{number}"] = sent.entry_id()
    official.facts["L"] = sent.ledger_id()
    message = consumer.receive(10_000)
    consumer.acknowledge(message)
    official.producers["s1"] = producer
    for name, kind in [
        ("excl", pulsar.ConsumerType.Exclusive),
        ("ks", pulsar.ConsumerType.KeyShared),
        ("fo", pulsar.ConsumerType.Failover),
    ]:
        official.client.subscribe("s1", name, kind)


def send_odd_ones(official: Official) -> None:
    """A batch, a compressed message, one with an ordering key and a delay, a key with a line end, a null value."""
    official.client.subscribe("s2", "keep", pulsar.ConsumerType.Shared).close()
    batching = official.client.create_producer(
        "s2", producer_name="b", batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    for number in range(3):
        batching.send_async(f"b{number}".encode(), lambda *_: None, properties={"n": str(number)})
    batching.flush()
    squeezing = official.client.create_producer("s2", producer_name="z", compression_type=pulsar.CompressionType.ZLib)
    squeezing.send(b"z" * 300, ordering_key="order")
    plain = official.client.create_producer("s2", producer_name="p")
    plain.send(b"later", deliver_at=4_000_000_000_000)
    plain.send(b"odd", partition_key="a\r\nX-Evil: b")
    plain.send(None)
    plain.send(b"", properties={"\u65e5": "\u672c\n"})


def close_producers(official: Official) -> None:
    for producer in official.producers.values():
        producer.close()
    official.producers.clear()


def close(official: Official) -> None:
    if official.is_open:
        official.is_open = False
        official.client.close()


BROKERS = [
    Ask("GET", f"{ADMIN}/brokers/health", compare=VALUE),
    Ask("GET", f"{ADMIN}/brokers/ready", compare=VALUE),
    Ask("GET", f"{ADMIN}/brokers/version", compare=STATUS),
    Ask("GET", f"{ADMIN}/brokers"),
    Ask("GET", f"{ADMIN}/brokers/standalone"),
    Ask("GET", f"{ADMIN}/brokers/leaderBroker"),
    Ask("GET", f"{ADMIN}/clusters", compare=VALUE),
    Ask("GET", f"{ADMIN}/clusters/standalone", compare=STATUS),
    Ask("GET", f"{ADMIN}/clusters/other", compare=VALUE),
]

LOOKUPS = [
    Ask("GET", "/lookup/v2/topic/persistent/public/default/lk"),
    Ask("GET", "/lookup/v2/topic/persistent/public/default/lk?authoritative=true"),
    Ask("GET", "/lookup/v2/topic/non-persistent/public/default/lk"),
    Ask("GET", "/lookup/v2/topic/persistent/public/default/a%20b"),
    Ask("GET", "/lookup/v2/topic/persistent/public/nons/lk", compare=VALUE),
    Ask("GET", "/lookup/v2/topic/persistent/nix/nons/lk", compare=VALUE),
    Ask("GET", f"{TOPICS}/lk/partitions", compare=VALUE),
    Ask("GET", f"{TOPICS}/lk/partitions?checkAllowAutoCreation=true", compare=VALUE),
    Ask("GET", f"{ADMIN}/persistent/public/nons/lk/partitions?checkAllowAutoCreation=true", compare=VALUE),
    Ask("GET", f"{ADMIN}/non-persistent/public/default/lk/partitions?checkAllowAutoCreation=true", compare=VALUE),
    Ask("GET", TOPICS, compare=VALUE),
    Ask("POST", f"{NAMESPACE}/autoTopicCreation", {"allowAutoTopicCreation": False}),
    Ask("GET", "/lookup/v2/topic/persistent/public/default/lk2"),
    Ask("GET", f"{TOPICS}/lk2/partitions?checkAllowAutoCreation=true"),
    Ask("POST", f"{NAMESPACE}/autoTopicCreation",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}),
    Ask("GET", f"{TOPICS}/lk3/partitions?checkAllowAutoCreation=true", compare=VALUE),
    Ask("GET", f"{TOPICS}/lk3/partitions", compare=VALUE),
    Ask("DELETE", f"{NAMESPACE}/autoTopicCreation"),
    Ask("DELETE", f"{TOPICS}/lk3/partitions"),
]  # fmt: skip

TENANTS = [
    Ask("GET", f"{ADMIN}/tenants"),
    Ask("HEAD", f"{ADMIN}/tenants"),
    Ask("GET", f"{ADMIN}/tenants/public", compare=VALUE),
    Ask("GET", f"{ADMIN}/tenants/nix", compare=VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t1", {"allowedClusters": ["standalone"], "adminRoles": []}),
    Ask("PUT", f"{ADMIN}/tenants/t1", {"allowedClusters": ["standalone"]}, VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", {"allowedClusters": ["nix"]}, VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", {"allowedClusters": []}, VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", "", VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", {}, VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", {"allowedClusters": "standalone"}, STATUS),
    Ask("PUT", f"{ADMIN}/tenants/t!x", {"allowedClusters": ["standalone"]}, VALUE),
    Ask("PUT", f"{ADMIN}/tenants/t2", "{bad", STATUS),
    Ask("PUT", f"{ADMIN}/tenants/t2", '{"allowedClusters":["standalone"]}', STATUS, kind="text/plain"),
    Ask("PUT", f"{ADMIN}/tenants/t2", '{"allowedClusters":["standalone"]}', STATUS, kind=""),
    Ask("POST", f"{ADMIN}/tenants/t1", {"allowedClusters": ["standalone"]}),
    Ask("POST", f"{ADMIN}/tenants/t9", {"allowedClusters": ["standalone"]}, VALUE),
    Ask("GET", f"{ADMIN}/namespaces/t1", compare=VALUE),
    Ask("GET", f"{ADMIN}/namespaces/nix", compare=VALUE),
    Ask("GET", f"{ADMIN}/namespaces/public/default"),
    Ask("GET", f"{ADMIN}/namespaces/public/nix", compare=VALUE),
    Ask("PUT", f"{ADMIN}/namespaces/t1/n1"),
    Ask("PUT", f"{ADMIN}/namespaces/t1/n1", compare=VALUE),
    Ask("PUT", f"{ADMIN}/namespaces/t1/n2", {"deduplicationEnabled": True}),
    Ask("GET", f"{ADMIN}/namespaces/t1/n2"),
    Ask("GET", f"{ADMIN}/namespaces/t1/n2/deduplication", compare=VALUE),
    Ask("PUT", f"{ADMIN}/namespaces/tnix/n1", compare=VALUE),
    Ask("PUT", f"{ADMIN}/namespaces/t1/n!1", compare=VALUE),
    Ask("GET", f"{ADMIN}/namespaces/t1", compare=VALUE),
    Ask("DELETE", f"{ADMIN}/tenants/t1", compare=VALUE),
    Ask("DELETE", f"{ADMIN}/tenants/nix", compare=VALUE),
    Ask("PUT", f"{ADMIN}/persistent/t1/n1/x"),
    Ask("DELETE", f"{ADMIN}/namespaces/t1/n1", compare=VALUE),
    Ask("DELETE", f"{ADMIN}/persistent/t1/n1/x"),
    Ask("DELETE", f"{ADMIN}/namespaces/t1/n1"),
    Ask("DELETE", f"{ADMIN}/namespaces/t1/n2"),
    Ask("DELETE", f"{ADMIN}/namespaces/t1/n2", compare=VALUE),
    Ask("DELETE", f"{ADMIN}/tenants/t1"),
]


def policy(method: str, leaf: str, value: object, *, bad: object = NOTHING) -> list[Ask]:
    """Read it, set it, read it, remove it, read it."""
    path = f"{NAMESPACE}/{leaf}"
    steps = [Ask("GET", path, compare=VALUE), Ask(method, path, value), Ask("GET", path, compare=VALUE)]
    if bad is not NOTHING:
        steps.append(Ask(method, path, bad, STATUS))
    return [*steps, Ask("DELETE", path, compare=STATUS), Ask("GET", path, compare=VALUE)]


POLICIES = [
    *policy("POST", "deduplication", value=True, bad="x"),
    *policy("POST", "deduplication", value=False),
    *policy("POST", "autoTopicCreation", {"allowAutoTopicCreation": False}, bad={"allowAutoTopicCreation": True}),
    *policy(
        "POST",
        "autoTopicCreation",
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
        bad={"allowAutoTopicCreation": True, "topicType": "partitioned"},
    ),
    *policy("POST", "autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}),
    *policy("POST", "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}, bad={}),
    *policy("POST", "maxUnackedMessagesPerConsumer", 50, bad=-1),
    *policy("POST", "maxUnackedMessagesPerSubscription", 60, bad=-1),
    Ask("GET", f"{NAMESPACE}/encryptionRequired", compare=VALUE),
    Ask("POST", f"{NAMESPACE}/encryptionRequired", body=True),
    Ask("GET", f"{NAMESPACE}/encryptionRequired", compare=VALUE),
    Ask("POST", f"{NAMESPACE}/encryptionRequired", body=False),
    Ask("GET", f"{NAMESPACE}/schemaValidationEnforced", compare=VALUE),
    Ask("POST", f"{NAMESPACE}/schemaValidationEnforced", body=True),
    Ask("GET", f"{NAMESPACE}/schemaValidationEnforced", compare=VALUE),
    Ask("POST", f"{NAMESPACE}/schemaValidationEnforced", body=False),
    Ask("GET", f"{ADMIN}/namespaces/public/nix/deduplication", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/bundles"),
]

CREATION = [
    Ask("PUT", f"{TOPICS}/a1"),
    Ask("PUT", f"{TOPICS}/a1", compare=VALUE),
    Ask("PUT", f"{TOPICS}/a2", {"k": "v"}),
    Ask("GET", f"{TOPICS}/a2/properties", compare=VALUE),
    Ask("GET", f"{TOPICS}/a1/properties", compare=VALUE),
    Ask("PUT", f"{TOPICS}/p1/partitions", 3),
    Ask("PUT", f"{TOPICS}/p1/partitions", 3, VALUE),
    Ask("PUT", f"{TOPICS}/p1", compare=VALUE),
    Ask("PUT", f"{TOPICS}/p2/partitions", 0, VALUE),
    Ask("PUT", f"{TOPICS}/p2/partitions", -1, VALUE),
    Ask("PUT", f"{TOPICS}/p2/partitions", "", STATUS),
    Ask("PUT", f"{TOPICS}/p2/partitions", "x", STATUS),
    Ask("PUT", f"{TOPICS}/a1/partitions", 3, VALUE),
    Ask("PUT", f"{TOPICS}/x-partition-0", compare=VALUE),
    Ask("PUT", f"{TOPICS}/x-partition-0/partitions", 2, VALUE),
    Ask("PUT", f"{TOPICS}/p1-partition-7", compare=VALUE),
    Ask("PUT", f"{ADMIN}/persistent/public/nix/x"),
    Ask("PUT", f"{ADMIN}/persistent/public/nix/x/partitions", 2),
    Ask("GET", f"{TOPICS}/p1/partitions", compare=VALUE),
    Ask("GET", f"{TOPICS}/nix/partitions", compare=VALUE),
    Ask("GET", f"{TOPICS}/a1/partitions", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1-partition-0/partitions", compare=VALUE),
    Ask("GET", TOPICS, compare=VALUE),
    Ask("GET", f"{TOPICS}/partitioned", compare=VALUE),
    Ask("GET", f"{ADMIN}/non-persistent/public/default", compare=VALUE),
    Ask("GET", f"{ADMIN}/persistent/public/nix", compare=VALUE),
    Ask("GET", f"{ADMIN}/persistent/public/nix/partitioned", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics?mode=ALL", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics?mode=PERSISTENT", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics?mode=NON_PERSISTENT", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics?mode=foo", compare=STATUS),
    Ask("GET", f"{ADMIN}/namespaces/public/nix/topics", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/partitions", 5),
    Ask("GET", f"{TOPICS}/p1/partitions", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/partitions", 2, VALUE),
    Ask("POST", f"{TOPICS}/p1/partitions", 5),
    Ask("POST", f"{TOPICS}/p1/partitions", 0, STATUS),
    Ask("POST", f"{TOPICS}/nix/partitions", 5, VALUE),
    Ask("POST", f"{TOPICS}/a1/partitions", 5, VALUE),
    Ask("DELETE", f"{TOPICS}/p1", compare=VALUE),
    Ask("DELETE", f"{TOPICS}/a1/partitions", compare=VALUE),
    Ask("DELETE", f"{TOPICS}/nix", compare=VALUE),
    Ask("DELETE", f"{TOPICS}/nix/partitions", compare=VALUE),
    Ask("DELETE", f"{TOPICS}/a2"),
    Ask("PUT", f"{TOPICS}/%E6%97%A5"),
    Ask("PUT", f"{TOPICS}/b%20c"),
    Ask("GET", f"{TOPICS}/b%20c/partitions", compare=VALUE),
    Ask("PUT", f"{TOPICS}/a%2Fb", compare=STATUS),
    Ask("PUT", f"{TOPICS}/b%ff", compare=STATUS),
    Ask("GET", f"{TOPICS}/b%zz/stats", compare=STATUS),
    Ask("GET", TOPICS, compare=VALUE),
    Ask("DELETE", f"{TOPICS}/%E6%97%A5"),
    Ask("DELETE", f"{TOPICS}/b%20c"),
]

STATS = [
    send_ten,
    Ask("GET", f"{TOPICS}/s1/stats"),
    Ask("GET", f"{TOPICS}/s1/stats?getPreciseBacklog=true&subscriptionBacklogSize=true"),
    Ask("GET", f"{TOPICS}/nix/stats", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/stats", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/partitioned-stats"),
    Ask("GET", f"{TOPICS}/p1/partitioned-stats?perPartition=false"),
    Ask("GET", f"{TOPICS}/a1/partitioned-stats", compare=VALUE),
    Ask("GET", f"{TOPICS}/nix/partitioned-stats", compare=VALUE),
    Ask("GET", f"{TOPICS}/s1/internalStats"),
    Ask("GET", f"{TOPICS}/nix/internalStats", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/partitioned-internalStats"),
    Ask("GET", f"{TOPICS}/a1/partitioned-internalStats"),
    Ask("GET", f"{TOPICS}/s1/lastMessageId"),
    Ask("GET", f"{TOPICS}/a1/lastMessageId"),
    Ask("GET", f"{TOPICS}/nix/lastMessageId", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/lastMessageId", compare=VALUE),
    Ask("GET", f"{TOPICS}/s1/subscriptions"),
    Ask("GET", f"{TOPICS}/nix/subscriptions", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/subscriptions", compare=VALUE),
]


def at(entry: int, **more: object) -> str:
    """A message id as the body of a request, its numbers filled in later."""
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in more.items())
    return f'{{"ledgerId":{{L}},"entryId":{{E{entry}}}{rest}}}'


S1 = f"{TOPICS}/s1"
FIRST = f"{S1}/subscription/s3/position/1"
SUBSCRIPTIONS = [
    Ask("PUT", f"{S1}/subscription/s2"),
    Ask("PUT", f"{S1}/subscription/s2", compare=VALUE),
    Ask("PUT", f"{S1}/subscription/s3", '"earliest"'),
    Ask("PUT", f"{S1}/subscription/s3b", '"latest"'),
    Ask("PUT", f"{S1}/subscription/s4", at(3)),
    Ask("PUT", f"{S1}/subscription/s5", at(3, isExcluded=True)),
    Ask("PUT", f"{S1}/subscription/s6", '"garbage"', STATUS),
    Ask("PUT", f"{S1}/subscription/a%2Fb", compare=STATUS),
    Ask("GET", f"{S1}/subscription/a%2Fb/position/1", compare=STATUS),
    Ask("PUT", f"{TOPICS}/p1/subscription/sp"),
    Ask("GET", f"{TOPICS}/p1/subscriptions", compare=VALUE),
    Ask("PUT", f"{TOPICS}/p1-partition-0/subscription/single"),
    Ask("GET", f"{TOPICS}/p1-partition-0/subscriptions"),
    Ask("PUT", f"{TOPICS}/made-by-subscription/subscription/s"),
    Ask("GET", f"{TOPICS}/made-by-subscription/subscriptions", compare=VALUE),
    *(Ask("GET", f"{S1}/subscription/{name}/position/1", compare=VALUE) for name in ("s2", "s3", "s3b", "s4", "s5")),
    Ask("GET", f"{S1}/subscription/s3/position/2", compare=VALUE),
    Ask("GET", f"{S1}/subscription/s3/position/10", compare=VALUE),
    Ask("GET", f"{S1}/subscription/s3/position/11", compare=VALUE),
    Ask("GET", f"{S1}/subscription/s3/position/0", compare=STATUS),
    Ask("GET", f"{S1}/subscription/u1/position/1", compare=STATUS),
    Ask("GET", f"{TOPICS}/nix/subscription/nix/position/1", compare=VALUE),
    Ask("GET", f"{TOPICS}/p1/subscription/sp/position/1", compare=VALUE),
    Ask("GET", f"{S1}/ledger/{{L}}/entry/{{E2}}", compare=VALUE),
    Ask("GET", f"{S1}/ledger/999999/entry/0", compare=VALUE),
    Ask("GET", f"{TOPICS}/nix/ledger/1/entry/0", compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/skip/2"),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/u2/skip/2", compare=STATUS),
    Ask("POST", f"{S1}/subscription/s3/skip_all"),
    Ask("POST", f"{S1}/subscription/u3/skip_all", compare=STATUS),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/subscription/sp/skip_all"),
    Ask("POST", f"{TOPICS}/p1/subscription/sp/skip/1", compare=VALUE),
    Ask("POST", f"{TOPICS}/nix/subscription/sp/skip_all", compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor/0"),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor/4000000000000"),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", at(4, partitionIndex=-1, batchIndex=-1)),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", at(5, isExcluded=True)),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", at(5, excluded=True)),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", {"ledgerId": 99999, "entryId": 0}),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", {"ledgerId": -1, "entryId": -1}, STATUS),
    Ask("GET", FIRST, compare=VALUE),
    Ask("POST", f"{S1}/subscription/u4/resetcursor/0", compare=STATUS),
    Ask("POST", f"{S1}/subscription/u5/resetcursor", at(4), STATUS),
    Ask("POST", f"{TOPICS}/nix/subscription/nix/resetcursor/0", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/subscription/sp/resetcursor/0"),
    Ask("POST", f"{TOPICS}/p1/subscription/sp/resetcursor", at(4), STATUS),
    Ask("POST", f"{S1}/subscription/s3/resetcursor/abc", compare=STATUS),
    Ask("POST", f"{S1}/subscription/s3/resetcursor/-5", compare=STATUS),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", "", STATUS),
    Ask("POST", f"{S1}/subscription/s3/resetcursor", "[]", STATUS),
    Ask("POST", f"{S1}/subscription/s4/expireMessages/1000000"),
    Ask("GET", f"{S1}/subscription/s4/position/1", compare=VALUE),
    Ask("POST", f"{S1}/subscription/u6/expireMessages/1000000", compare=STATUS),
    Ask("POST", f"{S1}/all_subscription/expireMessages/1000000", compare=STATUS),
    Ask("POST", f"{TOPICS}/p1/subscription/sp/expireMessages/1000000", compare=STATUS),
    Ask("DELETE", f"{S1}/subscription/s4"),
    Ask("DELETE", f"{S1}/subscription/s4", compare=VALUE),
    Ask("DELETE", f"{S1}/subscription/sub", compare=VALUE),
    Ask("DELETE", f"{S1}/subscription/excl?force=true"),
    Ask("DELETE", f"{TOPICS}/p1/subscription/sp"),
    Ask("DELETE", f"{TOPICS}/p1/subscription/sp", compare=STATUS),
    Ask("DELETE", f"{TOPICS}/nix/subscription/sp", compare=VALUE),
]

MESSAGES = [
    send_odd_ones,
    *(Ask("GET", f"{TOPICS}/s2/subscription/keep/position/{number}", compare=VALUE) for number in range(1, 7)),
    Ask("GET", f"{TOPICS}/s2/lastMessageId"),
]

RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WIDER = RECORD.replace("]}", ',{"name":"b","type":["null","int"],"default":null}]}')
SCHEMA_STEPS = [
    Ask("GET", f"{SCHEMAS}/s1/schema"),
    Ask("GET", f"{SCHEMAS}/s1/schema/0"),
    Ask("GET", f"{SCHEMAS}/s1/schema/7", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/s1/schemas"),
    Ask("GET", f"{SCHEMAS}/a1/schema", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/nix/schema", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/a1/schemas", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/a1/schema/0", compare=VALUE),
    Ask("GET", f"{ADMIN}/schemas/public/nix/nix/schema", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/s1/schema/abc", compare=STATUS),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "JSON", "schema": RECORD, "properties": {"k": "v"}}, VALUE),
    Ask("GET", f"{SCHEMAS}/sd/schema"),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "JSON", "schema": RECORD, "properties": {"k": "v"}}, VALUE),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "JSON", "schema": WIDER, "properties": {}}, VALUE),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "STRING", "schema": "", "properties": {}}, STATUS),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "FOO", "schema": "", "properties": {}}, STATUS),
    Ask("POST", f"{SCHEMAS}/sd/schema", {"type": "AVRO", "schema": "{bad", "properties": {}}, STATUS),
    Ask("POST", f"{SCHEMAS}/sd/schema", "[]", STATUS),
    Ask("POST", f"{SCHEMAS}/sd/schema", "", STATUS),
    Ask("GET", f"{SCHEMAS}/sd/schemas"),
    Ask("GET", f"{SCHEMAS}/sd/schema/1"),
    Ask("POST", f"{SCHEMAS}/sd/version", {"type": "JSON", "schema": RECORD, "properties": {"k": "v"}}, VALUE),
    Ask("POST", f"{SCHEMAS}/si/schema", {"type": "INT32", "schema": "", "properties": {}}, VALUE),
    Ask("GET", f"{SCHEMAS}/si/schema"),
    Ask("DELETE", f"{SCHEMAS}/sd/schema", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/sd/schema", compare=VALUE),
    Ask("GET", f"{SCHEMAS}/sd/schemas"),
    Ask("DELETE", f"{SCHEMAS}/nix/schema", compare=STATUS),
]

DEDUPLICATION = [
    Ask("GET", f"{S1}/deduplicationEnabled", compare=VALUE),
    Ask("POST", f"{S1}/deduplicationEnabled", body=True),
    Ask("GET", f"{S1}/deduplicationEnabled", compare=VALUE),
    Ask("GET", f"{S1}/deduplicationEnabled?applied=true", compare=VALUE),
    Ask("POST", f"{S1}/deduplicationEnabled", body=False),
    Ask("GET", f"{S1}/deduplicationEnabled", compare=VALUE),
    Ask("DELETE", f"{S1}/deduplicationEnabled"),
    Ask("GET", f"{S1}/deduplicationEnabled", compare=VALUE),
    Ask("GET", f"{S1}/deduplicationEnabled?applied=true", compare=VALUE),
    Ask("POST", f"{TOPICS}/nix/deduplicationEnabled", body=True, compare=VALUE),
    Ask("GET", f"{TOPICS}/nix/deduplicationEnabled", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/deduplicationEnabled", body=True),
    Ask("GET", f"{TOPICS}/p1/deduplicationEnabled", compare=VALUE),
]

ENDINGS = [
    close_producers,
    Ask("DELETE", S1, compare=STATUS),
    Ask("DELETE", f"{S1}?force=true"),
    Ask("PUT", f"{TOPICS}/s2/unload"),
    Ask("PUT", f"{TOPICS}/nix/unload", compare=VALUE),
    Ask("PUT", f"{TOPICS}/p1/unload"),
    Ask("PUT", f"{NAMESPACE}/unload"),
    Ask("PUT", f"{ADMIN}/namespaces/public/nix/unload", compare=VALUE),
    Ask("POST", f"{TOPICS}/s2/terminate"),
    Ask("POST", f"{TOPICS}/s2/terminate"),
    Ask("POST", f"{TOPICS}/nix/terminate", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/terminate", compare=VALUE),
    Ask("POST", f"{TOPICS}/p1/terminate/partitions"),
    Ask("POST", f"{TOPICS}/a1/terminate"),
    Ask("POST", f"{TOPICS}/a1/terminate/partitions", compare=VALUE),
    close,
    Ask("DELETE", f"{TOPICS}/s2", compare=STATUS),
    Ask("DELETE", f"{TOPICS}/p1/partitions", compare=STATUS),
    Ask("DELETE", f"{TOPICS}/p1/partitions?force=true", compare=STATUS),
    Ask("GET", f"{TOPICS}/partitioned", compare=VALUE),
]

NP = f"{ADMIN}/non-persistent/public/default/np"
NON_PERSISTENT = [
    Ask("PUT", NP),
    Ask("GET", f"{NP}/stats"),
    Ask("GET", f"{NP}/internalStats"),
    Ask("GET", f"{NP}/subscriptions", compare=VALUE),
    Ask("PUT", f"{NP}/partitions", 2, VALUE),
    Ask("PUT", f"{NP}2/partitions", 2),
    Ask("GET", f"{NP}2/partitions", compare=VALUE),
    Ask("GET", f"{NP}2/partitioned-stats"),
    Ask("GET", f"{ADMIN}/non-persistent/public/default", compare=VALUE),
    Ask("GET", f"{ADMIN}/non-persistent/public/default/partitioned", compare=VALUE),
    Ask("GET", f"{NAMESPACE}/topics?mode=NON_PERSISTENT", compare=VALUE),
    Ask("GET", f"{NP}/lastMessageId", compare=STATUS),
    Ask("POST", f"{NP}/terminate", compare=VALUE),
    Ask("POST", f"{NP}/subscription/s/skip_all", compare=STATUS),
    Ask("POST", f"{NP}/subscription/s/resetcursor/0", compare=STATUS),
    Ask("GET", f"{NP}/subscription/s/position/1", compare=STATUS),
    Ask("PUT", f"{NP}/subscription/s", compare=STATUS),
    Ask("DELETE", NP),
    Ask("DELETE", f"{NP}2/partitions"),
]

NOBODY = [
    Ask("GET", "/"),
    Ask("GET", "/nix"),
    Ask("GET", f"{ADMIN}/nix"),
    Ask("GET", f"{ADMIN}/foo/public/default/x/partitions"),
    Ask("GET", f"{ADMIN}//tenants"),
    Ask("GET", f"{ADMIN}/tenants/"),
    Ask("POST", f"{ADMIN}/tenants", ""),
    Ask("PATCH", f"{ADMIN}/tenants"),
    Ask("DELETE", f"{TOPICS}/a1/stats"),
    Ask("PUT", f"{TOPICS}/a//b"),
]

STEPS: list[Ask | Act] = [
    *BROKERS,
    *LOOKUPS,
    *TENANTS,
    *POLICIES,
    *CREATION,
    *STATS,
    *SUBSCRIPTIONS,
    *MESSAGES,
    *SCHEMA_STEPS,
    *DEDUPLICATION,
    *ENDINGS,
    *NON_PERSISTENT,
    *(each._replace(compare=STATUS) for each in NOBODY),
]


def converse(port: int, service_url: str) -> list[dict[str, Any]]:
    """Take every step; gives the answers to the requests."""
    official = Official(service_url)
    answers = []
    try:
        for step in STEPS:
            if isinstance(step, Ask):
                answers.append({"ask": str(step), **ask(port, step, official)})
            else:
                step(official)
    finally:
        close(official)
    return answers
