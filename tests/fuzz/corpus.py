"""Renew the kept corpus: `python tests/fuzz/corpus.py [FOLDER_OF_FOUND_INPUTS ...]`.

Candidates are the corpus as it is, parts of the captured frames (`tests/vectors`), and what a run of `fuzz.py` found.
They are taken shortest first, and one is kept when it walks an edge between lines of our
decoders that none before it did, or meets an error of other words, or sets another field.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from google.protobuf.message import DecodeError, Message

from pulsar_actors.exceptions import PulsarException, WireError
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.compression import decompress
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.frames import FrameReader, decode_command
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData
from tests.fuzz.invariant import DECODERS, batch, check, command, entry, message_id, payload, stream

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
VECTORS = HERE.parent / "vectors"
LARGEST = 2_000  # bytes of one input
MOST = 500  # inputs
WALKED = ("/pulsar_actors/wire/", "/pulsar_actors/schema/", "/pulsar_actors/broker/web/", "/message_crypto.py")
BROKE = "found-"  # files of inputs that once broke the invariant: they always stay

Walked = set[object]


def chosen(decoder: Callable[[bytes], None], data: bytes) -> bytes:
    return bytes([DECODERS.index(decoder)]) + data


def from_vectors() -> Iterator[bytes]:
    for path in sorted(VECTORS.glob("*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()[1:]):
            if "serialised" in line:
                yield chosen(message_id, bytes.fromhex(line["serialised"]))
            else:
                with suppress(WireError):
                    yield from from_frame(bytes.fromhex(line["frame"]))


def from_frame(data: bytes) -> Iterator[bytes]:
    (frame,) = FrameReader().feed(data)
    yield chosen(stream, b"\x80" + data)
    yield chosen(command, frame.command)
    if frame.rest:
        opened = decode_entry(frame.rest)
        metadata = opened.metadata
        yield chosen(entry, b"\x01" + bytes(frame.rest))
        size = metadata.uncompressed_size.to_bytes(3, "big")
        yield chosen(payload, bytes([metadata.compression]) + size + bytes(opened.payload))
        if is_batch(metadata):
            plain = bytes(decompress(metadata.compression, opened.payload, metadata.uncompressed_size, 1 << 20))
            yield chosen(batch, metadata.num_messages_in_batch.to_bytes(2, "big") + plain)


def walk(data: bytes) -> Walked:
    """Tell which edges the input walks, which errors it meets, and which fields it has."""
    walked: Walked = set(fields_of(data))
    before: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in WALKED):
            return None
        walked.add((frame.f_code.co_filename, before.get(frame, 0), frame.f_lineno))
        before[frame] = frame.f_lineno
        if event == "exception" and isinstance(argument[1], PulsarException):
            walked.add((data[0], argument[0], re.sub(r"[\d,]+|'.*?'|: .*", "", str(argument[1]))))
        return trace

    sys.settrace(trace)
    try:
        check(data)
    finally:
        sys.settrace(None)
    return walked


def fields_of(data: bytes) -> Iterator[tuple[object, str]]:
    """Name the fields that a command, an entry or a message id sets: code that forgets one walks no other edge."""
    decoder, rest = DECODERS[data[0] % len(DECODERS)], data[1:]
    with suppress(WireError, DecodeError):
        if decoder == command:
            found: Message = decode_command(rest)
        elif decoder == entry:
            found = decode_entry(rest[1:]).metadata
        elif decoder == message_id:
            found = MessageIdData.FromString(rest)
        else:
            return
        yield found.DESCRIPTOR.name, ""
        for field, _ in found.ListFields():
            yield found.DESCRIPTOR.name, field.name


def main(folders: list[str]) -> None:
    found = [path.read_bytes() for folder in [CORPUS, *map(Path, folders)] for path in folder.iterdir()]
    candidates = {data for data in [*found, *from_vectors()] if 1 < len(data) <= LARGEST}
    seen: Walked = set()
    kept: list[bytes] = []
    for data in sorted(candidates, key=lambda each: (len(each), each)):
        walked = walk(data)
        if not walked <= seen and len(kept) < MOST:
            seen |= walked
            kept.append(data)
    for path in CORPUS.iterdir():
        if not path.name.startswith(BROKE):
            path.unlink()
    for data in kept:
        (CORPUS / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    sys.stdout.write(f"{len(kept)} inputs of {len(candidates)}, {sum(map(len, kept)):,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
