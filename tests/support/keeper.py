"""Run a command for as long as somebody holds our standard input open: `python keeper.py COMMAND...`.

A test process may end without a chance to tidy up, by a signal or a crash. The end of a pipe is told to whoever reads
it all the same, so nothing that was started through here outlives the process that started it. The command is ended by
SIGKILL: a test of a crash needs no other way, and a broker whose data is thrown away needs no better one.
"""

import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 -- whoever started us chose it

    def kill_at_end_of_input() -> None:
        sys.stdin.buffer.read()
        process.kill()

    threading.Thread(target=kill_at_end_of_input, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
