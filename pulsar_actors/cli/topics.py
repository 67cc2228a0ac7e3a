"""`topics`: lists topics, shows their statistics and backlogs, creates and terminates them.

It asks the brokers' web server, also that of the embedded broker. `--json` gives what that answers, for programs; of
a topic that is created, its name and partitions.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from pulsar_actors.cli.arguments import access_in, add_access_arguments, timeout_seconds
from pulsar_actors.cli.command import Command, integer_argument
from pulsar_actors.cli.message_lines import text_or_base64
from pulsar_actors.cli.terminal import dimmed, shown
from pulsar_actors.client.admin import AdminInterface, parse_admin_url
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import InvalidArgument, PulsarException
from pulsar_actors.runtime.http_client import HttpResponse
from pulsar_actors.wire.batch import split_batch
from pulsar_actors.wire.http_lookup import parse_reason
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.topic_name import TopicName

LOCAL: Final = "http://localhost:8080"
DOMAINS: Final = ("persistent", "non-persistent")
MOST_PARTITIONS: Final = 100_000
MOST_PEEKED: Final = 1_000_000
_PARTITION: Final = "-partition-"

Action = Callable[[AdminInterface, Namespace], Iterable[str]]


def run(arguments: Namespace) -> int:
    """Do what one of the actions does, and write its lines."""
    action: Action | None = arguments.action
    if action is None:
        arguments.parser.print_help()
        return 0
    try:
        parse_admin_url(arguments.admin_url, "--admin-url")  # `ClientOptions` would ask for a service URL
        options = ClientOptions(
            arguments.admin_url, operation_timeout_seconds=arguments.timeout, **access_in(arguments)
        )
        with closing(AdminInterface(arguments.admin_url, options, "--admin-url")) as admin:
            for line in action(admin, arguments):
                print(line)
    except BrokenPipeError:  # of the output: errors of the connection come as those of Pulsar
        raise
    except (PulsarException, OSError) as fault:
        print(f"failed: {fault}", file=sys.stderr)
        return 1
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as fault:
        what = "what --admin-url answers is none of Pulsar's: is it the brokers' web server?"
        print(f"failed: {what} ({type(fault).__name__}: {fault})", file=sys.stderr)
        return 1
    return 0


def _list(admin: AdminInterface, arguments: Namespace) -> Iterator[str]:
    """List the topics of a namespace: a partitioned one by one line, unless its partitions are asked for."""
    tenant, slash, namespace = arguments.namespace.partition("/")
    if not (tenant and slash and namespace) or "/" in namespace:
        raise InvalidArgument(f"a namespace is TENANT/NAMESPACE, such as public/default, not {arguments.namespace!r}")
    names: set[str] = set()
    for domain in DOMAINS:
        partitioned = set(_ask(admin, "GET", f"{domain}/{arguments.namespace}/partitioned"))
        topics = _ask(admin, "GET", f"{domain}/{arguments.namespace}")
        names |= {name for name in topics if arguments.partitions or name.rpartition(_PARTITION)[0] not in partitioned}
        names |= set() if arguments.partitions else partitioned
    if arguments.json:
        yield json.dumps(sorted(names))
    else:
        yield from map(shown, sorted(names))


def _stats(admin: AdminInterface, arguments: Namespace) -> Iterator[str]:
    """Show the statistics of a topic: messages, rates, and the backlog of each subscription."""
    topic = TopicName.parse(arguments.topic)
    partitions = _partitions(admin, topic)
    stats = _ask(admin, "GET", f"{topic.rest_path}/{'partitioned-stats?perPartition=false' if partitions else 'stats'}")
    if arguments.json:
        yield json.dumps(stats)
        return
    yield f"{topic}{f', {partitions} partitions' if partitions else ''}"
    yield _row("in", stats["msgInCounter"], stats["msgRateIn"], stats["msgThroughputIn"])
    yield _row("out", stats["msgOutCounter"], stats["msgRateOut"], stats["msgThroughputOut"])
    yield f"  {stats['storageSize']:,} bytes stored, producers: {len(stats['publishers'])}"
    for name, subscription in sorted(stats["subscriptions"].items()):
        kind = subscription.get("type") or "no consumer yet"
        yield f"  subscription {shown(name)} ({shown(kind)})"
        yield (
            f"    backlog {subscription['msgBacklog']:,}, unacknowledged {subscription['unackedMessages']:,}, "
            f"consumers: {len(subscription['consumers'])}, {subscription['msgRateOut']:,.1f} messages/s out"
        )


def _row(way: str, messages: int, rate: float, throughput: float) -> str:
    return f"  {way} {messages:,} messages, {rate:,.1f} messages/s, {throughput:,.0f} bytes/s"


def _create(admin: AdminInterface, arguments: Namespace) -> Iterator[str]:
    """Create a topic, with so many partitions or with none."""
    topic = TopicName.parse(arguments.topic)
    if arguments.partitions:
        _ask(admin, "PUT", f"{topic.rest_path}/partitions", arguments.partitions)
    else:
        _ask(admin, "PUT", topic.rest_path)
    if arguments.json:
        yield json.dumps({"topic": str(topic), "partitions": arguments.partitions})
    else:
        yield f"{topic}: created{f' with {arguments.partitions} partitions' if arguments.partitions else ''}"


def _terminate(admin: AdminInterface, arguments: Namespace) -> Iterator[str]:
    """Let a topic take no more messages, for ever. What it has is delivered."""
    topic = TopicName.parse(arguments.topic)
    if _partitions(admin, topic):
        last = _ask(admin, "POST", f"{topic.rest_path}/terminate/partitions")
        if arguments.json:
            yield json.dumps(last)
            return
        for index, position in sorted(last.items(), key=lambda item: int(item[0])):
            yield f"{topic}{_PARTITION}{index}: terminated after {_position(position)}"
    else:
        last = _ask(admin, "POST", f"{topic.rest_path}/terminate")
        yield json.dumps(last) if arguments.json else f"{topic}: terminated after {_position(last)}"


def _position(position: Mapping[str, int]) -> str:
    return f"({position['ledgerId']},{position['entryId']})"


def _peek(admin: AdminInterface, arguments: Namespace) -> Iterator[str]:
    """Show the first messages in the backlog of a subscription, which stay there."""
    topic = TopicName.parse(arguments.topic)
    if arguments.subscription_name not in _ask(admin, "GET", f"{topic.rest_path}/subscriptions"):
        # Pulsar would create it, and keep every message from then on.
        raise PulsarException(f"{topic} has no subscription {arguments.subscription_name!r}")
    count = _partitions(admin, topic)
    names = [topic.partition(index) for index in range(count)] if count else [topic]
    left = arguments.num_messages
    for name in names:
        for message in _backlog(admin, name, arguments.subscription_name):
            if not left:
                return
            left -= 1
            yield from _lines_of(message, as_json=arguments.json)


def _backlog(admin: AdminInterface, topic: TopicName, subscription: str) -> Iterator[dict[str, Any]]:
    """Iterate over the messages in the backlog of a topic without partitions."""
    path = f"{topic.rest_path}/subscription/{quote(subscription, safe='')}/position"
    for number in range(1, MOST_PEEKED):
        answer = admin.call("GET", f"{path}/{number}")
        if answer.status == HTTPStatus.NOT_FOUND and "essage not found" in parse_reason(answer.body):
            return
        yield from _messages_in(_checked(answer), topic)


def _messages_in(answer: HttpResponse, topic: TopicName) -> Iterator[dict[str, Any]]:
    """Iterate over the messages of an entry, as objects of JSON with the names of `consume --json`."""
    headers = answer.headers
    ledger_id, _, entry_id = headers["x-pulsar-message-id"].partition(":")
    message_id = MessageId(int(ledger_id), int(entry_id), topic.partition_index)
    entry: dict[str, Any] = {"id": str(message_id), "topic": str(topic)}
    for name in ("publish_time", "event_time"):
        if (moment := headers.get(f"x-pulsar-{name.replace('_', '-')}")) is not None:
            entry[name] = _milliseconds(moment)
    if "x-pulsar-producer-name" in headers:
        entry["producer"] = headers["x-pulsar-producer-name"]
    if headers.get("x-pulsar-is-encrypted") == "true":
        yield {**entry, "encrypted_bytes": len(answer.body)}
    elif "x-pulsar-num-batch-message" not in headers:
        key, properties = headers.get("x-pulsar-partition-key"), json.loads(headers.get("x-pulsar-property", "{}"))
        yield _message(answer.body, key, properties, entry)
    else:
        for index, single in enumerate(split_batch(answer.body, int(headers["x-pulsar-num-batch-message"]))):
            metadata = single.metadata
            key = metadata.partition_key
            if metadata.partition_key_b64_encoded:
                key = b64decode(key).decode(errors="backslashreplace")
            properties = {pair.key: pair.value for pair in metadata.properties}
            yield _message(
                single.payload, key, properties, {**entry, "id": str(message_id._replace(batch_index=index))}
            )


def _milliseconds(moment: str) -> int:
    """Return the milliseconds since 1970 of a time in ISO 8601. One beyond the calendar is given as such a number."""
    if moment.isdecimal():
        return int(moment)
    return round(datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() * 1000)


def _message(
    payload: bytes, key: str | None, properties: Mapping[str, str], entry: Mapping[str, Any]
) -> dict[str, Any]:
    named = {"key": key, "properties": properties}
    return {**text_or_base64("payload", payload), **{name: value for name, value in named.items() if value}, **entry}


def _lines_of(message: dict[str, Any], *, as_json: bool) -> Iterator[str]:
    if as_json:
        yield shown(json.dumps(message, ensure_ascii=False))
        return
    content = {name: message.pop(name) for name in tuple(message) if name.startswith(("payload", "encrypted"))}
    yield dimmed(shown(" ".join(f"{name}={value}" for name, value in message.items())))
    yield from (
        shown(str(value)) if name == "payload" else shown(f"{name}: {value}") for name, value in content.items()
    )


def _partitions(admin: AdminInterface, topic: TopicName) -> int:
    """Return the number of partitions, 0 of a topic without."""
    count: int = _ask(admin, "GET", f"{topic.rest_path}/partitions")["partitions"]
    return count


def _ask(admin: AdminInterface, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
    content = _checked(admin.call(method, path, body)).body
    return json.loads(content) if content else None


def _checked(answer: HttpResponse) -> HttpResponse:
    if answer.status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
        raise PulsarException(f"the broker answers {answer.status}: {parse_reason(answer.body)}")
    return answer


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")

    def add(name: str, action: Action) -> ArgumentParser:
        summary = (action.__doc__ or "").strip()
        added: ArgumentParser = actions.add_parser(name, help=summary, description=summary)
        added.set_defaults(action=action, parser=added)
        group = added.add_argument_group("broker")
        group.add_argument("-u", "--admin-url", default=LOCAL, help="the brokers' web server (default: %(default)s)")
        add_access_arguments(group)
        group.add_argument(
            "--timeout", type=timeout_seconds, default=30.0, help="seconds for an answer (default: %(default)s)"
        )
        return added

    listing = add("list", _list)
    listing.add_argument("namespace", nargs="?", default="public/default", help="(default: %(default)s)")
    listing.add_argument("--partitions", action="store_true", help="each partition, in place of the partitioned topic")
    stats, create, peek, terminate = (
        add(name, action)
        for name, action in (("stats", _stats), ("create", _create), ("peek", _peek), ("terminate", _terminate))
    )
    for each in (stats, create, peek, terminate):
        each.add_argument("topic")
    create.add_argument(
        "-p", "--partitions", type=integer_argument(0, MOST_PARTITIONS), default=0, help="(default: %(default)s, none)"
    )
    peek.add_argument("-s", "--subscription-name", required=True)
    peek.add_argument(
        "-n",
        "--num-messages",
        type=integer_argument(1, MOST_PEEKED),
        default=10,
        help="how many at most (default: %(default)s)",
    )
    for each in (listing, stats, create, peek, terminate):
        each.add_argument("--json", action="store_true", help="in JSON, for programs")


TOPICS: Final = Command(
    name="topics",
    summary="List topics, show statistics and backlogs, create and terminate topics.",
    configure=configure,
    run=run,
)
