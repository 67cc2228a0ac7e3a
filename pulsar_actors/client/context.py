"""The internals of a client that all its handles share: they start a handle's actor, and wait for brokers' answers.

A producer or consumer, of one topic or of several, is built completely in the calling thread: `registrations` assigns
its id and its loop, and then `start` starts its actor. From then on the client's actor, its guardian, ends it with the
client.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from google.protobuf.message import Message as Command

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.handle import HandleState
from pulsar_actors.client.open_handles import WeakCollection
from pulsar_actors.client.transport_config import usable_service_access
from pulsar_actors.exceptions import Timeout
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, forget_actors_on, tell
from pulsar_actors.runtime.client_actor import ClientActor, ClientSettings, Registrations
from pulsar_actors.runtime.connection_pool import ConnectionPoolSettings
from pulsar_actors.runtime.engine import Engine, Worker
from pulsar_actors.runtime.future import PendingCalls, SlimFuture
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.handler_actor import CloseableActor
from pulsar_actors.runtime.lookup_actor import BrokerQuery, LookupSettings
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.memory_limit import MemoryLimitController
from pulsar_actors.runtime.messages import CloseHandle
from pulsar_actors.runtime.schema_versions import SchemaVersions
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchemaResponse
from pulsar_actors.wire.service_url import ServiceUrl


class HandleSettings(NamedTuple):
    """The settings that each producer, consumer and lookup takes from the client's options. Times are in seconds."""

    operation_timeout: float
    first_backoff: float
    longest_backoff: float

    def backoff(self, loop: Loop) -> Backoff:
        """Make the backoff of one of them."""
        return Backoff(loop.chance, self.first_backoff, self.longest_backoff)


NO_IDLE_TIMEOUT = 10.0**9
"""Seconds."""

T = TypeVar("T")


class ClientContext:
    """The internals of one client. Any thread may use them."""

    def __init__(
        self, engine: Engine, options: ClientOptions, version: str, *, service_can_change: bool = False
    ) -> None:
        self.engine = engine
        self.open_states: WeakCollection[HandleState[Any]] = WeakCollection()
        self.watchers: tuple[Callable[[HandleState[Any]], object], ...] = ()
        """Called with each new state, for totals that include what has ended."""
        self.pending_calls = PendingCalls(engine.interleaving)  # calls of the client itself, and creations of handles
        self.counters = ClientCounters()
        url = ServiceUrl.parse(str(options.service_url))
        timeout = float(options.operation_timeout_seconds)
        first, longest = options.initial_backoff_interval_ms / 1000, options.max_backoff_interval_ms / 1000
        self.operation_timeout = timeout
        self.partitions_update_interval = float(options.partitions_update_interval)
        self.handle_settings = HandleSettings(timeout, first, longest)
        limit = options.memory_limit_bytes
        self.limiter = MemoryLimitController(limit, engine.interleaving) if limit else None
        self.schemas = SchemaVersions(self.ask_broker, self._wait_for_schema, engine.interleaving)
        self._worker_serial = 0
        self._only: dict[object, Any] = {}
        self.telemetry = options.telemetry
        if self.telemetry is not None:
            self.counters.observer = self.telemetry.begin(self)
        self.guardian: ActorRef = ClientActor.start(
            engine.loops,
            _client_settings(
                options,
                url,
                version,
                self.counters,
                self.handle_settings.backoff,
                service_can_change=service_can_change,
            ),
        )
        self.registrations = Registrations(self.guardian, engine.loops, options.connections_per_broker)

    def ask_broker(self, command: Command) -> SlimFuture[Any]:
        """Send a request to a broker of the service URL, and return a future of the answer."""
        answer: SlimFuture[Any] = self.pending_calls.track(SlimFuture())

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            if isinstance(outcome, Exception):
                self.pending_calls.fail(answer, outcome)
            else:
                self.pending_calls.resolve(answer, outcome)

        tell(self.guardian, BrokerQuery(command, answered))
        return answer

    def _wait_for_schema(self, answer: SlimFuture[Any], what: str) -> CommandGetSchemaResponse:
        self.engine.refuse_on_io_thread(what, "a thread of your own")
        response: CommandGetSchemaResponse = self.wait_for_answer(answer, what)
        return response

    def only(self, kind: "Callable[[ClientContext], T]") -> T:
        """Return the client's only object of a class that few programs need. The first caller makes it."""
        found: T | None = self._only.get(kind)
        return self._only.setdefault(kind, kind(self)) if found is None else found  # first callers get the same one

    def next_worker(self) -> Worker:
        """Return the next of the listener threads, in turn."""
        self._worker_serial += 1
        return self.engine.workers[self._worker_serial % len(self.engine.workers)]

    def start(self, actor: CloseableActor[Any], state: HandleState[Any]) -> None:
        """Start the actor of a state. `state.link.created` ends when brokers have accepted it, or with an error.

        The end of the client first closes `pending_calls`, and then ends each state and each creation that it finds
        here. So this method first lists the state, and *then* checks if the client has ended (the rule "append, then
        look" of `runtime/loop.py`).
        """
        created = state.link.created
        self.open_states.add(state)
        for watch in self.watchers:
            watch(state)
        created.add_done_callback(self.pending_calls.untrack)
        self.pending_calls.track(created)
        actor.begin()
        if self.pending_calls.closed is not None:  # its loop has ended, and will not start the actor
            forget_actors_on(self.engine.loops)

    def wait_until_created(self, state: HandleState[Any], what: str) -> None:
        """Wait until brokers have accepted the producer or consumer. Close it if the caller does not wait.

        Ctrl-C may end the wait, or an error of another signal handler, such as that of a time limit.
        """
        try:
            self.wait_for_answer(state.link.created, what)
        except BaseException:  # one that could not be created is closed already
            tell(state.address, CloseHandle())
            raise

    def wait_for_answer(self, future: Future[T], what: str) -> T:
        """Wait for an answer without a limit: its sender has a timeout.

        That Timeout gets `what` in front of its text.
        """
        try:
            return self.engine.block(future, None, what)
        except Timeout as error:
            raise Timeout(f"{what}: {error}") from None


def _client_settings(
    options: ClientOptions,
    url: ServiceUrl,
    version: str,
    counters: ClientCounters,
    new_backoff: Callable[[Loop], Backoff],
    *,
    service_can_change: bool,
) -> ClientSettings:
    timeout = float(options.operation_timeout_seconds)
    lookup = LookupSettings(
        timeout, options.listener_name, options.concurrent_lookup_requests, new_backoff, service_can_change
    )
    pool_settings = ConnectionPoolSettings(
        client_version=version,
        connection_timeout=options.connection_timeout_ms / 1000,
        keepalive_interval=float(options.keep_alive_interval_seconds),
        idle_after=max(float(options.connection_max_idle_seconds), timeout)
        if options.connection_max_idle_seconds
        else NO_IDLE_TIMEOUT,
        tcp_no_delay=options.tcp_no_delay,
        service_can_change=service_can_change,
    )
    return ClientSettings(
        service_url=url,
        lookup=lookup,
        pool_settings=pool_settings,
        access=usable_service_access(options),
        counters=counters,
    )
