"""Calls the interceptors of a producer. A producer without interceptors has no object of this kind.

An interceptor that raises is logged and skipped. The outcome of a message first completes a future of this module,
which calls the interceptors and then completes the sender's own future or callback.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from pulsar_actors.client.enums import Result
from pulsar_actors.client.interceptors import MessageToSend, ProducerInterceptor
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.runtime.engine import Worker
from pulsar_actors.runtime.future import SlimFuture, is_slim_future, settle
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG

_RAISED = object()


class ProducerInterceptors:
    """The interceptors of one producer, in order. `worker` runs `on_partitions_change` and `close`."""

    __slots__ = ("_interceptors", "_send_callbacks", "_worker")

    def __init__(
        self, interceptors: Sequence[ProducerInterceptor], send_callbacks: SendCallbacks, worker: Worker
    ) -> None:
        self._interceptors = interceptors
        self._send_callbacks = send_callbacks
        self._worker = worker

    def before(
        self,
        producer: Any,  # noqa: ANN401 - handles know of this module
        message: MessageToSend,
        reply: object,
    ) -> tuple[MessageToSend, SlimFuture[MessageId]]:
        """Return the message as the interceptors changed it, and the future that replaces the sender's reply."""
        concerned: list[ProducerInterceptor] = []
        for one in self._interceptors:
            if self._guarded(one.eligible, message) is not True:
                continue
            concerned.append(one)
            made = self._guarded(one.before_send, producer, message)
            if isinstance(made, MessageToSend):
                message = made
            elif made is not _RAISED:
                LOG.warning("an interceptor of %s gave no MessageToSend but %s", self._send_callbacks.topic, type(made))
        done: SlimFuture[MessageId] = SlimFuture()

        def complete(ended: Future[MessageId]) -> None:
            error = cast("Exception | None", ended.exception())
            message_id = None if error is not None else ended.result()
            try:
                for one in concerned:
                    self._guarded(one.on_send_acknowledgement, producer, message, message_id, error)
            finally:
                self._tell_sender(reply, message_id, error)

        done.add_done_callback(complete)
        return message, done

    def partitions_changed(self, topic: str, partitions: int) -> None:
        """Call the interceptors, on the worker, with the new number of partitions of the topic."""
        for one in self._interceptors:
            self._worker.submit(partial(self._guarded, one.on_partitions_change, topic, partitions))

    def close(self) -> None:
        """Close the interceptors, on the worker."""
        for one in self._interceptors:
            self._worker.submit(partial(self._guarded, one.close))

    def _tell_sender(self, reply: object, message_id: MessageId | None, error: Exception | None) -> None:
        if error is not None:
            self._send_callbacks.fail(reply, error)
        elif is_slim_future(reply):
            settle(reply, message_id)
        elif reply is not None:
            self._send_callbacks.call(reply, Result.Ok, cast("MessageId", message_id))

    def _guarded(self, call: Callable[..., object], *arguments: object) -> object:
        try:
            return call(*arguments)
        except BaseException as raised:  # user code; sys.exit() must not end an I/O or listener thread
            if is_for_main(raised):
                raise
            LOG.exception("an interceptor of %s raised, and is passed over", self._send_callbacks.topic)
            return _RAISED
