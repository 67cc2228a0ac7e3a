"""What the crews of producer sets and consumer sets share: how a set hears what becomes of a member."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pulsar_actors.client.parts import Parts
from pulsar_actors.exceptions import InternalError, PulsarException
from pulsar_actors.machines.topic_set_events import MemberLost, MemberOpened
from pulsar_actors.runtime.future import SlimFuture

Report = Callable[[object], None]


def watch(parts: Parts[Any], member: int, report: Report, name: Callable[[], str]) -> None:
    """Report that a member is there, with its name, or cannot be; and in the end that it has ended."""

    def created(future: "Future[None]") -> None:
        error = future.exception()
        report(MemberOpened(member, name()) if error is None else MemberLost(member, _known(error)))

    def ended(future: "Future[None]") -> None:
        report(MemberLost(member, _known(future.exception())))

    parts.ties.created.add_done_callback(created)
    end: SlimFuture[None] = SlimFuture()
    end.add_done_callback(ended)
    parts.ties.debts.owe(end)  # it is never paid, so it ends with the member


def _known(error: BaseException | None) -> PulsarException:
    return error if isinstance(error, PulsarException) else InternalError(f"a member has ended by {error!r}")
