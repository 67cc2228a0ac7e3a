from pulsar_actors.broker.session.write_queue import SessionWriteQueue
from tests.support.bench_loop import BenchLoop, Wire


class Rig:
    def __init__(self) -> None:
        self.loop = BenchLoop()
        self.wire = Wire()
        self.resumed = 0
        self.out = SessionWriteQueue(self.loop, self.wire, self.resume)

    def resume(self) -> None:
        self.resumed += 1


def test_what_is_said_in_one_turn_leaves_in_one_write() -> None:
    rig = Rig()
    for data in (b"a", b"b", memoryview(b"cd")):
        rig.out.put([data])
    assert rig.wire.writes == 0
    rig.loop.run()
    assert (rig.wire.written, rig.wire.writes) == (b"abcd", 1)


def test_what_does_not_fit_leaves_when_there_is_room_and_nothing_is_lost_or_repeated() -> None:
    rig = Rig()
    rig.wire.room = 3
    rig.out.put([b"ab", b"", b"cdef", b"gh"])
    rig.loop.run()
    assert rig.wire.written == b"abc"
    assert rig.wire.waiting
    rig.out.put([b"i"])
    rig.loop.run()
    assert rig.wire.written == b"abc"
    for room in (1, 0, 2, None):
        rig.wire.room = room
        rig.out.writable()
    assert rig.wire.written == b"abcdefghi"


def test_a_queue_of_a_thousand_buffers_leaves_in_order() -> None:
    rig = Rig()
    rig.out.put([b"%04d" % i for i in range(1_000)])
    rig.loop.run()
    assert rig.wire.written == b"".join(b"%04d" % i for i in range(1_000))


def test_a_long_queue_has_no_room_and_says_when_it_has_again_once() -> None:
    rig = Rig()
    rig.wire.room = 0
    rig.out.put([bytes(1024 * 1024 - 1)])
    rig.loop.run()
    assert rig.out.has_room()
    rig.out.put([b"x"])
    assert not rig.out.has_room()
    rig.wire.room = 100
    rig.out.writable()
    assert rig.resumed == 0
    rig.wire.room = None
    rig.out.writable()
    assert rig.resumed == 1
    assert rig.out.has_room()
    rig.out.put([b"x"])
    rig.loop.run()
    assert rig.resumed == 1


def test_a_connection_closed_when_sent_says_its_last_words() -> None:
    rig = Rig()
    rig.wire.room = 1
    rig.out.put([b"bye"])
    rig.out.close_when_sent()
    rig.loop.run()
    assert not rig.wire.closed
    rig.wire.room = None
    rig.out.writable()
    assert rig.wire.written == b"bye"
    assert rig.wire.closed


def test_a_closed_connection_writes_nothing_more() -> None:
    rig = Rig()
    rig.out.put([b"never"])
    rig.out.close()
    rig.loop.run()
    assert rig.wire.written == b""
    assert rig.wire.closed
