"""A driver in a process of its own, for tests that kill it or read its output."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.spark.traffic import until

COPYING = Path(__file__).with_name("copying.py")


class Driver:
    """A driver process, in a process group with all that it starts, for the duration of a `with` block."""

    def __init__(self, **given: Any) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(COPYING), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._process.communicate()
        self._log.close()

    @property
    def pid(self) -> int:
        """The process of the driver, and the session of all that it has started."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def until(self, true: Callable[[], Any]) -> None:
        """Wait until a condition holds; fail if the process ends before that."""

        def holds() -> bool:
            assert not self.has_ended, self.output()
            return bool(true())

        until(holds)

    def output(self) -> str:
        """Wait for the end of the process, and return its log and output."""
        printed, _ = self._process.communicate(timeout=300)
        self._log.seek(0)
        return self._log.read() + printed

    def finish(self) -> None:
        output = self.output()
        assert "all is copied" in output, output
