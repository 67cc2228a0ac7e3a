from pulsar_actors.machines.left_out import Unreadable
from pulsar_actors.runtime.progress import MOST_LEFT_OUT, Progress
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck


def corrupt(entry: int) -> Unreadable:
    return Unreadable((1, entry), CommandAck.ChecksumMismatch)


def test_of_what_was_left_out_the_latest_are_kept_and_the_others_counted() -> None:
    progress = Progress(keeps_left_out=True)
    progress.leave_out(corrupt(entry) for entry in range(MOST_LEFT_OUT))
    progress.found_corrupt(corrupt(MOST_LEFT_OUT))
    kept, forgotten = progress.take_left_out()
    assert (kept[0], kept[-1], len(kept)) == (corrupt(1), corrupt(MOST_LEFT_OUT), MOST_LEFT_OUT)
    assert forgotten == 1
    assert progress.take_left_out() == ([], 0)


def test_to_begin_again_is_to_have_left_out_nothing() -> None:
    progress = Progress(keeps_left_out=True)
    progress.leave_out(corrupt(entry) for entry in range(MOST_LEFT_OUT + 1))
    progress.begin_again()
    assert progress.take_left_out() == ([], 0)
