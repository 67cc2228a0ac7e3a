"""Code that partitioned producers and consumers of several topics share: it makes their actor, and reports members."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.handle import HandleState
from pulsar_actors.exceptions import InternalError, PulsarException
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.machines.multi_topics_events import MemberLost, MemberOpened, MultiTopicsSettings
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.multi_topics_actor import MemberFactory, MultiTopicsActor, TopicSearch

ReportToSet = Callable[[object], None]
F = TypeVar("F", bound=MemberFactory)


def new_multi_topics_actor(
    context: ClientContext,
    link: HandleLink,
    settings: MultiTopicsSettings,
    new_members: Callable[[ReportToSet], F],
    search: TopicSearch,
) -> MultiTopicsActor[F]:
    """Make the actor. It is not started here."""
    registrations = context.registrations
    registration = registrations.new("topic set")
    return MultiTopicsActor(registration, link, MultiTopics(settings), new_members, search, registrations)


def report_lifecycle(state: HandleState[Any], member: int, report: ReportToSet, name: Callable[[], str]) -> None:
    """Report that a member was created, with its name, or could not be created; later, that it has ended."""

    def created(future: "Future[None]") -> None:
        error = future.exception()
        report(MemberOpened(member, name()) if error is None else MemberLost(member, _as_pulsar_error(error)))

    def ended(future: "Future[None]") -> None:
        report(MemberLost(member, _as_pulsar_error(future.exception())))

    state.link.created.add_done_callback(created)
    end: SlimFuture[None] = SlimFuture()
    end.add_done_callback(ended)
    state.link.pending_calls.track(end)  # it is never resolved, so it ends with the member


def _as_pulsar_error(error: BaseException | None) -> PulsarException:
    return error if isinstance(error, PulsarException) else InternalError(f"a member has ended by {error!r}")
