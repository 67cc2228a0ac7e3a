"""A driver in a process of its own, for what is lost with one, or said by one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

COPYING = Path(__file__).with_name("copying.py")


class Driver:
    """A driver of its own, with all that it starts in a group of processes, as long as the `with` block."""

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

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def said(self) -> str:
        """Wait for its end, and give all that it has said."""
        told, _ = self._process.communicate(timeout=300)
        self._log.seek(0)
        return self._log.read() + told

    def finish(self) -> None:
        said = self.said()
        assert "all is copied" in said, said
