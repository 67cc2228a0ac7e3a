"""The wall clock of other processes, which can be set. It takes Linux and a C compiler."""

import subprocess
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
_BYTES = 8
_BILLION = 1_000_000_000


class Clock:
    """A clock for all processes that are started with this environment. It is right at first."""

    def __init__(self, folder: Path) -> None:
        library, self._offset = folder / "clock.so", folder / "clock.offset"
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)], check=True)  # noqa: S603
        self._offset.write_bytes(bytes(_BYTES))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def set(self, seconds: float) -> None:
        """Let the clock be this far ahead of the right time, or behind it."""
        with self._offset.open("r+b") as file:
            file.write(int(seconds * _BILLION).to_bytes(_BYTES, "little", signed=True))
