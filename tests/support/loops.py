"""Event loops for tests: asyncio's own and uvloop, each with a time limit."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

SOON: Final = 20
Main = Callable[[], Awaitable[Any]]
Run = Callable[[Main], Any]

LOOPS: Final = ("asyncio", "uvloop") if sys.platform != "win32" else ("asyncio",)


def run_in(kind: str, main: Main) -> Any:
    """Run a coroutine function in a loop of its own, to its end; asyncio's in debug mode."""

    async def limited() -> Any:
        return await asyncio.wait_for(main(), SOON)

    if kind == "asyncio":
        return asyncio.run(limited(), debug=True)
    import uvloop  # noqa: PLC0415 - not on every platform

    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(limited())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def happens(true: Callable[[], Any]) -> None:
    """Wait until the function returns something true; the time limit is that of `run_in`."""
    while not true():  # noqa: ASYNC110 - it may change on any thread
        await asyncio.sleep(0.005)
