"""Record the official client talking to a real broker: `python tests/vectors/capture.py` writes the files beside it.

Needs Java 17, Maven (for the first run) and `pulsar-client`. Each file is lines of JSON: what it is about, then the
frames in the order in which they passed, without those already written to any file. A frame with messages names what
was sent in it.
"""

import json
import socket
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand
from tests.support.jars import VERSION
from tests.support.tap import Recorded, Tap
from tests.vectors import scenarios
from tests.vectors.stage import Sent, Stage, pulsar, running_broker

HERE = Path(__file__).parent
SMALL_LIMIT = """
maxMessageSize=4096
exposingBrokerEntryMetadataToClientEnabled=true
brokerEntryMetadataInterceptors=\
org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor,\
org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor
"""

ROUTINE = {"LOOKUP", "LOOKUP_RESPONSE", "PARTITIONED_METADATA", "PARTITIONED_METADATA_RESPONSE", "SEND_RECEIPT"}.union(
    ["CLOSE_PRODUCER", "CLOSE_CONSUMER", "SUCCESS", "PRODUCER_SUCCESS"]
)
ENOUGH = 8  # of one routine command in one file

PLAIN = (
    scenarios.codecs,
    scenarios.fields,
    scenarios.key_based,
    scenarios.lookup,
    scenarios.acknowledging,
    scenarios.consuming,
    scenarios.schemas,
    scenarios.broker_sent,
    scenarios.idle,
    scenarios.java,
)
WITH_SMALL_LIMIT = (scenarios.chunks, scenarios.entry_metadata)

Scenario = Callable[[Stage], None]
Line = dict[str, Any]


def command_of(frame: bytes) -> BaseCommand:
    size = int.from_bytes(frame[4:8], "big")
    return BaseCommand.FromString(frame[8 : 8 + size])


def receipts(frames: Iterable[Recorded]) -> dict[tuple[int, int, int], deque[tuple[int, int]]]:
    """Where the broker put each send, by connection, producer and sequence id; chunks share one."""
    found: dict[tuple[int, int, int], deque[tuple[int, int]]] = defaultdict(deque)
    for each in frames:
        command = command_of(each.frame)
        if command.type == BaseCommand.SEND_RECEIPT:
            receipt = command.send_receipt
            where = (receipt.message_id.ledgerId, receipt.message_id.entryId)
            found[each.connection, receipt.producer_id, receipt.sequence_id].append(where)
    return found


def lines_of(frames: list[Recorded], stage: Stage) -> Iterable[Line]:
    placed = receipts(frames)
    for each in frames:
        command = command_of(each.frame)
        sent: list[Sent] = []
        if command.type == BaseCommand.SEND:
            waiting = placed[each.connection, command.send.producer_id, command.send.sequence_id]
            sent = stage.messages_of(*waiting.popleft()) if waiting else []
        elif command.type == BaseCommand.MESSAGE:
            sent = stage.messages_of(command.message.message_id.ledgerId, command.message.message_id.entryId)
        name = BaseCommand.Type.Name(command.type)
        line: Line = {"from": each.sender, "command": name, "step": each.step, "frame": each.frame.hex()}
        yield {**line, "sent": sent} if sent else line


def write(name: str, about: str, lines: Iterable[Line]) -> None:
    client = f"pulsar-client {VERSION} (Java)" if name == "java" else f"pulsar-client {pulsar.__version__} (Python)"
    header = {"about": about, "client": client, "broker": f"Apache Pulsar {VERSION}"}
    text = "".join(json.dumps(line) + "\n" for line in [header, *lines])
    (HERE / f"{name}.jsonl").write_text(text)


def unseen(lines: Iterable[Line], seen: set[tuple[str, str]]) -> list[Line]:
    """Drop what is in another file already, and routine frames after the first few."""
    kept: list[Line] = []
    routine: Counter[str] = Counter()
    for line in lines:
        same = (line["from"], line["frame"])
        routine[line["command"]] += line["command"] in ROUTINE
        if same not in seen and routine[line["command"]] <= ENOUGH:
            seen.add(same)
            kept.append(line)
    return kept


def refuse_private(frames: Iterable[Recorded]) -> None:
    """A vector must not say on which machine it was made."""
    for private in (socket.gethostname(), str(Path.home()), str(HERE)):
        for each in frames:
            if private.encode() in each.frame:
                message = f"{private!r} in a {each.sender} frame of {each.step!r}"
                raise RuntimeError(message)


def record(chosen: Iterable[Scenario], settings: str, seen: set[tuple[str, str]]) -> list[Line]:
    tap = Tap()
    ids: list[Line] = []
    with running_broker(tap.port, settings) as broker:
        tap.target = broker.outer
        for scenario in chosen:
            stage = Stage(scenario.__name__, tap, broker)
            stage.step("connect")
            scenario(stage)
            stage.close()
            frames = tap.taken()
            refuse_private(frames)
            write(scenario.__name__, scenario.__doc__ or "", unseen(lines_of(frames, stage), seen))
            ids += stage.ids
            sys.stdout.write(f"{scenario.__name__}: {len(frames)} frames\n")
    return ids


def main() -> None:
    seen: set[tuple[str, str]] = set()
    ids = record(PLAIN, "", seen) + record(WITH_SMALL_LIMIT, SMALL_LIMIT, seen)
    distinct = {line["serialised"]: line for line in ids}
    write("message_ids", "Message ids as the official client serialises them.", distinct.values())


if __name__ == "__main__":
    main()
