"""A producer for tests that sends what no client sends: chunks in any order or never, and invalid entries."""

import socket
import time
from types import TracebackType
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.frames import decode_command, encode_command, encode_payload_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
)

SECONDS = 10.0


class RawProducer:
    """A producer of one topic.

    Its chunked messages have two chunks: the name in lower case, and the name in upper case.
    """

    def __init__(self, service_url: str, topic: str) -> None:
        host, _, port = service_url.removeprefix("pulsar://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._buffer = b""
        self._sent = 0
        self._ask(CommandConnect(client_version="raw", protocol_version=21), CommandConnected)
        self._ask(CommandProducer(topic=topic, producer_id=0, request_id=0), CommandProducerSuccess)

    def __enter__(self) -> "RawProducer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def first(self, name: str, **said: Any) -> None:
        """Send the first half of a message."""
        self._chunk(name, 0, name.lower(), **said)

    def second(self, name: str, **said: Any) -> None:
        """Send the second half of a message."""
        self._chunk(name, 1, name.upper(), **said)

    def send(self, payload: bytes, *, is_chunk: bool = False, **said: Any) -> None:
        """Send one entry with this metadata, true or not."""
        number = self._sent
        always = {"producer_name": "raw", "sequence_id": number, "publish_time": int(time.time() * 1000)}
        metadata = MessageMetadata(**{**always, **said})
        command = CommandSend(producer_id=0, sequence_id=number, num_messages=1, is_chunk=is_chunk)
        self._socket.sendall(b"".join(encode_payload_command(command, *encode_entry(metadata, payload))))
        self._sent += 1
        self._await(CommandSendReceipt)

    def _chunk(self, uuid: str, chunk_id: int, text: str, **said: Any) -> None:
        sizes = {"num_chunks_from_msg": 2, "total_chunk_msg_size": 2 * len(text)}
        self.send(text.encode(), is_chunk=True, uuid=uuid, chunk_id=chunk_id, **sizes, **said)

    def _ask(self, command: Message, answer: type[Message]) -> None:
        self._socket.sendall(encode_command(command))
        self._await(answer)

    def _await(self, kind: type[Message]) -> None:
        """Read until a command of this kind comes, and ignore others."""
        while True:
            body = self._read(int.from_bytes(self._read(4), "big"))
            size = int.from_bytes(body[:4], "big")
            if isinstance(decode_command(body[4 : 4 + size]), kind):
                return

    def _read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self._socket.recv(65_536)
            assert data, "the broker has closed the connection"
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken
