"""A future of several messages: as many as a policy says, or those that have come when its time is up.

It waits for its first message as a future of one does, and like that one it can be cancelled until there is something
for it. From then on it keeps what it has, takes along what else is there, and waits for more, ahead of those who came
later. All of this happens on the loop, but for the beginning and a cancellation.
"""

from concurrent.futures import CancelledError, Future
from typing import Any

from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.runtime.future import settle
from pulsar_actors.runtime.owned_future import OwnedFuture
from pulsar_actors.runtime.supply import Supply


class BatchPromise(OwnedFuture[list[Message]]):
    """One call of `batch_receive_async`. Somebody has to `expire` it when the policy's time is up."""

    def __init__(self, hand_off: Supply, policy: ConsumerBatchReceivePolicy) -> None:
        super().__init__()
        self._hand_off = hand_off
        self._policy = policy
        self._messages: list[Message] = []
        self._size = 0
        self._is_late = False
        self._next: Future[Any] = hand_off.promise()
        self._next.add_done_callback(self._came)

    def cancel(self) -> bool:
        """Want no messages any longer; False if there are some."""
        if self._messages or not self._next.cancel():
            return False
        is_cancelled = super().cancel()
        self.set_running_or_notify_cancel()  # or else `concurrent.futures.wait` would not hear of it
        return is_cancelled

    def expire(self) -> None:
        """End with what there is; a message that is being fetched comes along."""
        self._is_late = True
        if not self.done() and self._next.cancel():
            settle(self, self._messages)

    def _came(self, future: "Future[Any]") -> None:
        try:
            message = future.result()
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - it says why there will be no more
            settle(self, self._messages or error)  # where there are some, the next call says it
            return
        while message is not None:
            self._messages.append(message)
            self._size += len(message.data())
            if self._is_late or self._policy.is_filled_by(len(self._messages), self._size):
                settle(self, self._messages)
                return
            message = self._hand_off.take()
        self._next = self._hand_off.promise(ahead=True)
        self._next.add_done_callback(self._came)
