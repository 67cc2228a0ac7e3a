"""Messages put off: sent to the retry topic, to be delivered from there later, and then acknowledged where they were.

The original is acknowledged only when the retry topic has the message, or the dead letter topic, once it was put off
too often. If anything goes wrong on the way it stays unacknowledged, and whoever put it off hears why; at worst it
comes twice, and it is never lost.

The Java client can put off cumulatively as well: that sends the one message that it is given, and acknowledges all
before it, which are thus not put off but gone. Here this takes two calls, which say so.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from pulsar_actors.client.arguments import LONGEST_MS, whole_number
from pulsar_actors.client.arguments import properties as check_properties
from pulsar_actors.client.consuming.acknowledgements import Acknowledgements, Acknowledging, all_of, listed, place_in
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.late_producer import LateProducer, known
from pulsar_actors.client.living import Living
from pulsar_actors.client.message import Message
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.ledgers.fan_outs import naming
from pulsar_actors.machines.ledgers.retry_topic import Origin, put_off
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, settle

_delay = whole_number(0, LONGEST_MS)


class Retries:
    """Those of one consumer. Any thread may use it."""

    __slots__ = ("_again", "_dead", "_engine", "_max_retries", "_on_their_way", "_subscription")

    def __init__(
        self, engine: Engine, subscription: str, max_retries: int, again: LateProducer, dead: LateProducer
    ) -> None:
        self._engine = engine
        self._subscription = subscription
        self._max_retries = max_retries
        self._again = again
        self._dead = dead
        self._on_their_way: dict[Future[None], None] = {}

    def put_off(
        self, handle: Acknowledging, acks: Acknowledgements, given: object, delay_ms: int, properties: object
    ) -> "Future[None]":
        """Put off each of these, and give a future of the end; what is wrong with one is said before any is sent."""
        _delay("delay_ms", delay_ms)
        further = cast("dict[str, str]", check_properties("properties", properties))
        messages = [_message(one) for one in listed(given)]
        for one in messages:
            place_in(handle, one)
        return all_of([self._send(handle, acks, one, delay_ms, further) for one in messages])

    def wait(self, seconds: float) -> None:
        """Wait until what is on its way has ended, in whatever way, for so many seconds at most."""
        ended: SlimFuture[None] = SlimFuture()
        all_of(list(self._on_their_way)).add_done_callback(lambda _: settle(ended, None))
        with suppress(Timeout):
            self._engine.block(ended, seconds, "waiting for messages that are being put off")

    def close_soon(self) -> None:
        """Begin to close what messages were sent on with."""
        self._again.close_soon()
        self._dead.close_soon()

    def _send(
        self,
        handle: Acknowledging,
        acks: Acknowledgements,
        message: Message,
        delay_ms: int,
        further: Mapping[str, str],
    ) -> "Future[None]":
        origin = Origin(message.topic_name(), self._subscription, str(message.message_id()))
        own = {**message.properties(), **further}
        properties, is_dead, deliver_at_ms = put_off(
            own, origin, delay_ms, self._engine.wall_clock_ms(), self._max_retries
        )
        way = self._dead if is_dead else self._again
        done: SlimFuture[None] = SlimFuture()
        self._on_their_way[done] = None
        done.add_done_callback(self._forget)
        sent = way.forward(message, properties, deliver_at_ms)
        sent.add_done_callback(_OnItsWay(handle, acks, message, way.topic, done))
        return done

    def _forget(self, done: "Future[None]") -> None:
        self._on_their_way.pop(done, None)


def retries_of(options: ConsumerOptions, workshop: Workshop, producers: Living[Producer]) -> Retries | None:
    """Make those of a consumer that has any."""
    policy = options.dead_letter_policy
    if not options.enable_retry or policy is None:
        return None

    def way(topic: str | None, initial_subscription: str | None) -> LateProducer:
        return LateProducer(workshop, producers, topic or "", options.schema, initial_subscription or "")

    again, dead = way(policy.retry_letter_topic, ""), way(policy.dead_letter_topic, policy.initial_subscription_name)
    return Retries(workshop.engine, options.subscription_name, policy.max_redeliver_count, again, dead)


class _OnItsWay:
    """A message on its way. It holds its consumer until that ends, and no longer: futures keep their callbacks."""

    __slots__ = ("_acks", "_done", "_held", "_message", "_topic")

    def __init__(
        self, handle: Acknowledging, acks: Acknowledgements, message: Message, topic: str, done: SlimFuture[None]
    ) -> None:
        self._held = [handle]
        self._acks = acks
        self._message = message
        self._topic = topic
        self._done = done

    def __call__(self, sent: "Future[Any]") -> None:
        """Acknowledge a message that was sent on, or say why it was not."""
        handle, error = self._held.pop(), sent.exception()
        if error is not None:
            settle(self._done, _not_put_off(self._topic, error))
            return
        try:
            acknowledged = self._acks.hand_in_for_another(handle, self._message)
        except Exception as fault:  # noqa: BLE001 - a future's callback may not raise, and somebody waits
            settle(self._done, fault)
            return
        done = self._done
        acknowledged.add_done_callback(lambda last: settle(done, cast("Exception | None", last.exception())))


def _not_put_off(topic: str, error: BaseException) -> Exception:
    if isinstance(error, PulsarException):
        return naming(error, f"{topic} did not take the message, which stays unacknowledged: {error}")
    return known(error)


def _message(given: object) -> Message:
    if not isinstance(given, Message):
        raise TypeError(f"a Message is put off, not {type(given).__name__}")
    return given
