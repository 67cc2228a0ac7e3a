"""Run a command until this program's standard input is closed: `python keeper.py COMMAND...`.

A test process may be killed or crash before it can stop the processes that it started. The operating system then closes
the process's end of the pipe, so this program reads the end of the pipe, and kills the command. SIGKILL is enough:
tests of a crash want it, and a broker's data is thrown away.
"""

import os
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 -- the caller chose it

    def kill_at_end_of_input() -> None:
        while os.read(0, 1024):  # `sys.stdin` has a lock that this thread would hold when the interpreter ends
            pass
        process.kill()

    threading.Thread(target=kill_at_end_of_input, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
