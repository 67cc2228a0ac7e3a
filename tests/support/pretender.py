"""A fake broker that answers correctly, except to one kind of command."""

import socket
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.wire.frames import FrameReader, decode_command, encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CommandSuccess,
    MessageIdData,
)

Attack = Callable[[Any], bytes]


class Broker:
    """A broker that answers correctly, except to one kind of command: there, the attack makes the answer."""

    def __init__(self, kind: type[Message] | None = None, attack: Attack = lambda _: b"") -> None:
        self._kind = kind
        self._attack = attack

    def serve(self, client: socket.socket) -> None:
        reader = FrameReader()
        try:
            while data := client.recv(65536):
                for frame in reader.feed(data):
                    client.sendall(self._answer(client, decode_command(frame.command)))
        except OSError:
            return

    def _answer(self, client: socket.socket, command: Any) -> bytes:
        if type(command) is self._kind:
            return self._attack(command)
        answer = self._right_answer(client, command)
        return b"" if answer is None else encode_command(answer)

    def _right_answer(self, client: socket.socket, command: Any) -> Message | None:
        number = getattr(command, "request_id", 0)
        answer: Message | None = CommandSuccess(request_id=number) if number else None
        match command:
            case CommandConnect():
                answer = CommandConnected(server_version="fake", protocol_version=21)
            case CommandPartitionedTopicMetadata():
                done = CommandPartitionedTopicMetadataResponse.Success
                answer = CommandPartitionedTopicMetadataResponse(partitions=0, response=done, request_id=number)
            case CommandLookupTopic():
                url = f"pulsar://127.0.0.1:{client.getsockname()[1]}"
                connect = CommandLookupTopicResponse.Connect
                answer = CommandLookupTopicResponse(brokerServiceUrl=url, response=connect, request_id=number)
            case CommandProducer():
                answer = CommandProducerSuccess(request_id=number, producer_name="fake")
            case CommandSend():
                place = MessageIdData(ledgerId=1, entryId=command.sequence_id)
                answer = CommandSendReceipt(
                    producer_id=command.producer_id, sequence_id=command.sequence_id, message_id=place
                )
            case CommandGetLastMessageId():
                last = MessageIdData(ledgerId=1, entryId=1)
                answer = CommandGetLastMessageIdResponse(last_message_id=last, request_id=number)
        return answer
