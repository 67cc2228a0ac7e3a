"""How many steps of the package's code something takes: whether it grows in line with its size is seen without a clock.

A step is an instruction of the interpreter. What `transitions` and others do counts for nothing, and so does what a
single instruction has done in C, such as the copy of a list.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pulsar_actors import exceptions

OURS: Final = str(Path(exceptions.__file__).parent)


def steps(function: Callable[[], object]) -> int:
    """Count the steps of a call."""
    count = 0

    def enter(frame: FrameType, _: str, __: object) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        return step

    def step(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
