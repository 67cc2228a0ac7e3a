"""What the actors behind handles share, of one topic or of several: how they come to be there for callers, and end.

An actor stays after its machine's end until its handle is let go of, for somebody may still close it: it goes when it
is both over and unwanted. Whose creation has failed has no handle, and is unwanted from then on.
"""

from typing import ClassVar, TypeVar

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.binding_events import Close, CreationFailed, EndAtOnce, Ended, Fail, Open
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.runtime.actor import MachineActor
from pulsar_actors.runtime.binding_messages import Place, Retired
from pulsar_actors.runtime.future import is_promise, settle
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.ties import Ties

M = TypeVar("M", bound=StateMachine)


class HeldActor(MachineActor[M]):
    """A producer, a consumer, or a set of them."""

    def __init__(self, loop: Loop, place: Place, ties: Ties) -> None:
        super().__init__(loop, place.guardian)
        self.debts = ties.debts
        self.created = ties.created
        self.ended = ties.ended
        self._unwanted = False
        self._over = False

    @property
    def called(self) -> str:
        """What it is, in errors."""
        raise NotImplementedError

    def on_start(self) -> None:
        """Begin."""
        self.feed(Open())

    def end(self, error: PulsarException) -> None:
        """Fail what callers have handed over; more of it is refused from now on."""
        self.debts.end(error)

    def end_by(self, event: Close | EndAtOnce) -> None:
        """End as the handle says, or go at once if all is over."""
        self._unwanted = True
        if self._over:
            self.retire()
        else:
            self.feed(event)

    def abandon(self, bug: InternalError) -> None:
        """Fail everything, and go."""
        self.end(bug)
        settle(self.created, bug)
        self.retire()

    def retire(self) -> None:
        """Answer whoever waits for the end, and go."""
        settle(self.ended, None)
        self.tell_guardian(Retired(self.actor_ref))
        self.finish()

    # One method for each effect.

    def _fail_creation(self, effect: CreationFailed) -> None:
        self._unwanted = True
        settle(self.created, effect.error)

    def _fail(self, effect: Fail) -> None:
        assert is_promise(effect.token)  # noqa: S101 - the token of a call
        self.debts.fail(effect.token, effect.error)

    def _ended(self, effect: Ended) -> None:
        self._over = True
        self.end(effect.error or AlreadyClosed(f"{self.called} is closed"))
        if self._unwanted:
            self.retire()

    PERFORMS: ClassVar = {CreationFailed: _fail_creation, Fail: _fail, Ended: _ended}
