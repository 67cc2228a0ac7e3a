"""What ties a producer's or consumer's actor to whoever holds its handle: two futures, its debts, and how it has fared.

Handles and actors both keep these, and outlive each other: a handle may wait for the end of an actor that has gone, and
an actor may go on closing after the last reference to its handle.
"""

from pulsar_actors.runtime.debts import Debts
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.vitals import Vitals


class Ties:
    """The ties of one. `created` ends when it is there, or with the reason why not; `ended` ends well in any case."""

    __slots__ = ("created", "debts", "ended", "vitals")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.created: SlimFuture[None] = SlimFuture()
        self.ended: SlimFuture[None] = SlimFuture()
        self.debts = Debts(interleaving)
        self.vitals = Vitals()
