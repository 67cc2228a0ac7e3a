"""The number of steps that a call takes in the package's code. So a test can see without a clock how the cost grows.

A step is an instruction of the interpreter. Steps in `transitions` and other packages do not count, and neither does
the work of a single instruction in C, such as the copy of a list.
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
