"""Two loops that talk: one asks, the other gives back what it hears."""

from pulsar_actors.runtime.loop import Transport, TransportOwner
from pulsar_actors.simulation.world import World


class Speaker:
    """An owner that sends what it is given and keeps what it hears, with the time of each piece."""

    def __init__(self, talk: "Talk", *, echoes: bool) -> None:
        self.talk = talk
        self.echoes = echoes
        self.transport: Transport | None = None
        self.to_send = bytearray()
        self.heard = bytearray()
        self.sizes: list[int] = []
        self.times: list[float] = []
        self.rooms = 0
        self.is_open = False
        self.reason: str | None = None

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.to_send += data
        del self.to_send[: self.transport.send([bytes(self.to_send)])]
        if self.to_send:
            self.transport.await_room()

    def opened(self) -> None:
        self.is_open = True
        self.say(b"")

    def writable(self) -> None:
        self.rooms += 1
        self.say(b"")

    def received(self, data: bytes) -> None:
        self.heard += data
        self.sizes.append(len(data))
        self.times.append(self.talk.world.now)
        if self.echoes:
            self.say(data)

    def lost(self, reason: str) -> None:
        self.reason = reason


class Talk:
    """A listener on the loop "server", and connections to it from loops of any name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = world.loop("server")
        self.echoes: list[Speaker] = []
        self.server.post(lambda _: self.server.listen("host", 1, self.accept), None)

    def accept(self, transport: Transport, address: str) -> TransportOwner:
        echo = Speaker(self, echoes=True)
        echo.transport = transport
        self.echoes.append(echo)
        return echo

    def say(self, loop_name: str, data: bytes, host: str = "host", port: int = 1) -> Speaker:
        loop = self.world.loop(loop_name)
        speaker = Speaker(self, echoes=False)
        speaker.to_send += data

        def connect(_: None) -> None:
            speaker.transport = loop.connect(host, port, speaker)

        loop.post(connect, None)
        return speaker
