"""How a producer's interceptors are called. Where there are none, nothing of this is.

Each is called by itself: what one raises is logged, and the next one is called as if it had not been there. What became
of a message is told to a future of our own first, which tells the interceptors, and then whoever has sent it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producing.producer_interceptor import MessageToSend, ProducerInterceptor
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.runtime.engine import Worker
from pulsar_actors.runtime.future import SlimFuture, is_promise, settle
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG

_RAISED = object()


class ProducerInterceptors:
    """Those of one producer, in their order."""

    __slots__ = ("_given", "_reports", "_topic", "_worker")

    def __init__(self, given: Sequence[ProducerInterceptor], reports: Reports, topic: str, worker: Worker) -> None:
        self._given = given
        self._reports = reports
        self._topic = topic
        self._worker = worker

    @classmethod
    def of(
        cls, given: Sequence[ProducerInterceptor], reports: Reports, topic: str, worker: Worker
    ) -> "ProducerInterceptors | None":
        """Give those of a producer, if it has any. `worker` is where they hear of what concerns no message."""
        return cls(given, reports, topic, worker) if given else None

    def before(
        self,
        producer: Any,  # noqa: ANN401 - handles know of this module
        message: MessageToSend,
        reply: object,
    ) -> tuple[MessageToSend, SlimFuture[MessageId]]:
        """Give what they make of a message, and what is to be told of it in place of whoever sends it."""
        concerned: list[ProducerInterceptor] = []
        for one in self._given:
            if self._guarded(one.eligible, message) is not True:
                continue
            concerned.append(one)
            made = self._guarded(one.before_send, producer, message)
            if isinstance(made, MessageToSend):
                message = made
            elif made is not _RAISED:
                LOG.warning("an interceptor of %s gave no MessageToSend but %s", self._topic, type(made))
        done: SlimFuture[MessageId] = SlimFuture()

        def tell(ended: Future[MessageId]) -> None:
            error = cast("Exception | None", ended.exception())
            message_id = None if error is not None else ended.result()
            try:
                for one in concerned:
                    self._guarded(one.on_send_acknowledgement, producer, message, message_id, error)
            finally:
                self._tell_sender(reply, message_id, error)

        done.add_done_callback(tell)
        return message, done

    def partitions_changed(self, topic: str, partitions: int) -> None:
        """Tell them, later, how many partitions the topic has by now."""
        for one in self._given:
            self._worker.submit(partial(self._guarded, one.on_partitions_change, topic, partitions))

    def close(self) -> None:
        """Tell them, later, that it is over."""
        for one in self._given:
            self._worker.submit(partial(self._guarded, one.close))

    def _tell_sender(self, reply: object, message_id: MessageId | None, error: Exception | None) -> None:
        if error is not None:
            self._reports.fail(reply, error)
        elif is_promise(reply):
            settle(reply, message_id)
        elif reply is not None:
            self._reports.call(reply, Result.Ok, cast("MessageId", message_id))

    def _guarded(self, call: Callable[..., object], *arguments: object) -> object:
        try:
            return call(*arguments)
        except BaseException as raised:  # it is not ours; sys.exit() is to end neither a loop nor a listener's thread
            if is_for_main(raised):
                raise
            LOG.exception("an interceptor of %s raised, and is passed over", self._topic)
            return _RAISED
