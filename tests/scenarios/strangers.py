"""Clients that are not ours, and know no manners: they speak before CONNECT, connect twice, or keep an old token."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from pulsar_actors.broker.session.lifecycle import REFRESH_SECONDS
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.loop import Transport
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import SimulatedLoop
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command
from tests.scenarios.scene import Scene

AT_ONCE = 0.01
AFTER_THE_TOKEN = 2.0
SHORT_LIFE = 1.0


class Stranger:
    """One connection of another client: what it says, and when."""

    def __init__(self, scene: Scene, tokens: Tokens) -> None:
        self._dice = Dice(scene.world.seed, "stranger")
        self._tokens = tokens
        self._loop: SimulatedLoop = scene.world.loop("stranger")
        self._loop.post(self._begin, None)
        self._transport: Transport
        self.until = 0.0
        """When its story is over."""
        self._is_patient = self._dice.happens(0.05)
        if self._is_patient:
            self.until = REFRESH_SECONDS + 2 * AFTER_THE_TOKEN

    def _begin(self, _: None) -> None:
        self._transport = self._loop.connect("broker", 6650, self)

    def opened(self) -> None:
        dice = self._dice
        refreshes = self._is_patient or dice.happens(0.7)
        me = self._connect("me", SHORT_LIFE, refreshes=refreshes)
        manners: Sequence[Callable[[], Sequence[tuple[float, Message]]]] = (
            lambda: [(0.0, pb.CommandProducer(topic="t", producer_id=1, request_id=1))],
            lambda: [(0.0, me), (AT_ONCE, me)],
            lambda: [(0.0, me), (AFTER_THE_TOKEN, me)],
            lambda: [(0.0, me)],
            lambda: [(0.0, me), (AT_ONCE, self._response("me"))],
            lambda: [(0.0, me), (AFTER_THE_TOKEN, self._response("somebody else"))],
            lambda: [(0.0, self._response("me"))],
        )
        story = manners[dice.below(len(manners))]()
        if self._is_patient:  # it lives, but does not answer
            story = [(0.0, me), *((float(at), pb.CommandPing()) for at in range(5, int(self.until), 5))]
        for delay, command in story:
            self._loop.later(delay, self._say, command)

    def _say(self, command: Message) -> None:
        self._transport.send([encode_command(command)])

    def received(self, data: bytes) -> None:
        """Listen to nothing."""

    def writable(self) -> None:
        """Never say much."""

    def lost(self, reason: str) -> None:
        """Take it as it comes."""

    def close(self) -> None:
        """Go away."""
        self._loop.post(lambda _: self._transport.close(), None)

    def _connect(self, who: str, seconds: float, *, refreshes: bool) -> Message:
        token = self._tokens.issue(who, lifetime_seconds=seconds)
        return pb.CommandConnect(
            client_version="stranger", protocol_version=20, auth_method_name="token", auth_data=token.encode(),
            feature_flags=pb.FeatureFlags(supports_auth_refresh=refreshes),
        )  # fmt: skip

    def _response(self, who: str) -> Message:
        data = pb.AuthData(auth_method_name="token", auth_data=self._tokens.issue(who).encode())
        return pb.CommandAuthResponse(client_version="stranger", protocol_version=20, response=data)
