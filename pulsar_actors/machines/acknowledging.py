"""How a consumer's acknowledgements leave, and what becomes of those who wait for their receipts.

The ledger (`ack_groups.py`) gathers them; here it is told what happens, and what it says becomes effects. A command
asks for a receipt if the user wants to hear that acknowledgements count. What is corrupt is acknowledged for nobody,
and no receipt is asked for it. A refused acknowledgement counts as never made, so the time to make it runs again.

A topic that is not stored keeps no acknowledgement. There one ends at once.
"""

from collections.abc import Iterable

from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.consumer_events import (
    Acked,
    Acknowledge,
    AcknowledgeUpTo,
    AcksAnswered,
    AskToAck,
    Tell,
)
from pulsar_actors.machines.consumer_ledgers import Ledgers
from pulsar_actors.machines.ledgers.ack_command import AckGroup, Token
from pulsar_actors.machines.ledgers.ack_outcome import Outcome
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.receipts import Receipts


class Acknowledging:
    """The acknowledgements of one consumer. Times are monotonic seconds."""

    __slots__ = ("_acks_sent", "_consumer_id", "_stored", "_timeout", "generation", "ledgers", "receipts")

    def __init__(self, consumer_id: int, ledgers: Ledgers, *, timeout: float, stored: bool) -> None:
        self.generation = Generation()
        self.ledgers = ledgers
        self.receipts = Receipts(timeout)
        self._consumer_id = consumer_id
        self._timeout = timeout
        self._stored = stored
        self._acks_sent = 0

    def acknowledged(self, event: Acknowledge, now: float) -> Effects:
        """Mark messages; nothing of them is late or refused any longer."""
        if event.tokens:
            self.receipts.awaited(event.tokens, now)
        if not self._stored:
            ids = (*event.message_ids, *(entry for entry, _ in event.parts))
            return self._settle(Outcome([one.position for one in ids], tokens=event.tokens or ()))
        acks = self.ledgers.acks
        settled = self._settle(acks.acknowledge(event.message_ids, event.generation, now, event.tokens))
        if event.parts:
            settled = [*settled, *self._settle(acks.acknowledge_parts(event.parts, event.generation, now))]
        if event.at_once:
            acks.hurry(now)
        return settled

    def acknowledged_up_to(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Mark a message and all before it."""
        tokens = None if event.token is None else (event.token,)
        if not self._stored:
            return self.acknowledged(Acknowledge(event.generation, (event.message_id,), tokens), now)
        if tokens:
            self.receipts.awaited(tokens, now)
        outcome = self.ledgers.acks.acknowledge_up_to(event.message_id, event.generation, now, event.token)
        if event.at_once:
            self.ledgers.acks.hurry(now)
        return self._settle(outcome)

    def _settle(self, outcome: Outcome) -> Effects:
        self.ledgers.acknowledged(outcome)
        failed = [one for token, fault in outcome.faults if token is not None for one in self.acked((token,), fault)]
        return [*self.acked(outcome.tokens, None), *failed]

    def send_acks(self) -> Effects:
        """Send all that is held."""
        return [self.ack(group) for group in self.ledgers.acks.drain()]

    def ack(self, group: AckGroup) -> AskToAck | Tell:
        """Send one command."""
        command = group.command(self._consumer_id)
        if not self.ledgers.acks.receipts or group.validation_error is not None:
            return Tell(self.generation.connection, command)
        self._acks_sent += 1
        self.ledgers.acks.awaits(self._acks_sent, group)
        return AskToAck(self._acks_sent, command, self._timeout)

    def answered(self, event: AcksAnswered, now: float) -> Effects:
        """End the acknowledgements of one command; if they do not count, they are waited for anew."""
        tokens, refused = self.ledgers.acks.answered(event.ack, failed=event.error is not None)
        if refused and self.ledgers.timeouts is not None:
            self.ledgers.timeouts.refused(refused, now)
        return self.acked(tokens, event.error)

    def late_receipts(self, why: str, now: float) -> Effects:
        """Let nobody wait any longer than was agreed. What they acknowledged is still on its way."""
        late = self.receipts.expire(now)
        text = f"the broker has not confirmed the acknowledgement in time, which is still on its way: {why}"
        return [Acked(late, Timeout(text))] if late else []

    def abandon_acks(self, error: PulsarException) -> Effects:
        """Fail what will have no answer."""
        return self.acked(self.ledgers.acks.abandon(), error)

    def acked(self, tokens: Iterable[Token], error: PulsarException | None) -> Effects:
        """Tell those who still wait."""
        waiting = self.receipts.ended(tokens)
        return [Acked(waiting, error)] if waiting else []
