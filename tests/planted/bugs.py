"""The planted bugs: what a line says, what it says with the bug, and what then goes wrong.

They are mistakes that somebody could make: a case that is forgotten, an order that is turned round, a count that is one
off, a state that is not reset. A test sees that each of the lines is still there, once.
"""

from typing import Final, NamedTuple


class Bug(NamedTuple):
    """A bug, planted by replacing some text of a file of the package, which is there once."""

    file: str
    text: str
    instead: str
    mistake: str

    @property
    def name(self) -> str:
        return f"{self.file.rpartition('/')[2].removesuffix('.py')}: {self.mistake}"

    @property
    def is_of_spark(self) -> bool:
        return "spark" in self.file


PENDING = "machines/trackers/pending_messages.py"
PRODUCER = "machines/producer.py"
IDENTITY = "machines/trackers/producer_identity.py"
ROUTING = "machines/trackers/message_routing.py"
BATCHING = "machines/trackers/batching.py"
POOL = "runtime/connection_pool.py"
PERMITS = "machines/trackers/flow_permits.py"
ACKS = "machines/trackers/ack_grouping_tracker.py"
CONSUMER_ACKS = "machines/consumer_acks.py"
MESSAGES = "machines/consumer_messages.py"
CONSUMER = "machines/consumer.py"
HANDLER = "machines/connection_handler.py"
CONNECTION = "machines/connection.py"
TRANSPORT = "runtime/transport.py"
REQUESTS = "machines/connection_requests.py"
TRANSACTION = "machines/transaction.py"
RECEIVER_QUEUE = "runtime/receiver_queue.py"
CURSOR = "broker/model/cursor.py"
DISPATCHER = "broker/model/dispatcher.py"
PENDING_ACKS = "broker/model/pending_acks.py"
TOPIC = "broker/model/topic.py"
SHARED = "broker/model/shared_dispatcher.py"
KEY_SHARED = "broker/model/key_shared_dispatcher.py"
BUFFER = "broker/model/transaction_buffer.py"
COORDINATOR = "broker/model/transaction_coordinator.py"
PRODUCERS = "broker/model/producer.py"
CHUNKS = "machines/trackers/chunked_messages.py"
ENTRY_MAP = "machines/trackers/entry_map.py"
BATCH_BUILDER = "runtime/batch_builder.py"
SEND_QUEUE = "runtime/send_queue.py"
CONSUMER_TRACKERS = "machines/consumer_trackers.py"
NEGATIVE_ACKS = "machines/trackers/negative_acks_tracker.py"
LISTENERS = "client/listeners.py"
SELECTORS = "broker/model/selectors.py"
DEAD_LETTERS = "client/dead_letters.py"
SCHEMA_VERSIONS = "runtime/schema_versions.py"
TABLE_VIEW_UPDATES = "client/table_view_updates.py"
OPENED_ENTRY = "runtime/opened_entry.py"
EXACTLY_ONCE = "spark/exactly_once.py"
CONTROL_TOPIC = "spark/control_topic.py"
READ_TASK = "spark/read_task.py"
MICRO_BATCHES = "spark/micro_batches.py"
MESSAGE_COUNTER = "spark/message_counter.py"
SPARK_PROGRESS = "machines/spark_progress.py"

BUGS: Final = (
    # Producers.
    Bug(PENDING, "self._waiting = [*self._written, *self._waiting]", "self._waiting = [*self._waiting]",
        "what was written is not sent again"),
    Bug(PENDING, "return len(item.message_ids) == item.frames or", "return len(item.message_ids) > item.frames or",
        "a message waits for one receipt more than it has frames"),
    Bug(PENDING, "item.frames or item.message_ids[-1] == STORED_BEFORE", "item.frames",
        "a message that the broker has waits for the receipts of all its chunks"),
    Bug(PENDING, "failed.append(FailedSend(item.token, may_be_stored=item.writes > 0))",
        "failed.append(FailedSend(item.token, may_be_stored=False))", "what was written fails as if it was not"),
    Bug(PENDING, "        self.messages.free(item.messages)\n", "",
        "the room of a message is not freed"),
    Bug(PENDING, "            or (is_repeat and one.lowest_sequence_id > item.lowest_sequence_id)\n", "",
        "an old id that is sent again waits for a receipt that has come"),
    Bug(PENDING, "return item is not None and not self._may_overtake", "return item is None or not self._may_overtake",
        "a receipt that comes after the send timeout ends the connection"),
    Bug(PRODUCER, 'Row(ReceiptsArrived,  READY,              WAITING,    "comes_out_of_order", "drop_out_of_order"),', "",
        "a receipt that skips messages does not end the connection"),
    Bug(PRODUCER, "self.identity.adopt(event.command)", "pass", "the broker's name for a producer is not adopted"),
    Bug(PRODUCER, "return [*opened, *oversized, *self._write(), *self._finished_flushes()]", "return [*opened, *oversized]",
        "what is pending is not written when bound"),
    Bug(PRODUCER, 'Row(CloseAnswered,    CLOSING,            WAITING,    "has_unconfirmed",    "release_unconfirmed"),', "",
        "messages without a receipt are given up with the answer to a close"),
    Bug(PRODUCER, "        return [self.timers.start(LineCheckDue, LINE_CHECK_INTERVAL)]\n\n    def ask_if_taken",
        "        return []\n\n    def ask_if_taken", "a producer that waits for its turn never asks if the topic is taken"),
    Bug(PRODUCER, "return [*late, *self._finished_flushes()]", "return late", "a flush does not end with late messages"),
    Bug(IDENTITY, "        if self._adopts and last_sequence_id >= self._next:", "        if last_sequence_id >= self._next:",
        "a broker's last id is preferred to the user's"),
    Bug(IDENTITY, "self._next = max(self._next, _check_sequence_id(sequence_id) + 1)", "_check_sequence_id(sequence_id)",
        "ids of the user's are given to later messages again"),
    Bug(ROUTING, "self._chosen = int(self._jitter() * partitions)", "return int(self._jitter() * partitions)",
        "the single partition is chosen anew for each message"),
    Bug(BATCHING, "    ends = sorted({*alone, len(sizes)})", "    ends = [len(sizes)]",
        "a message that needs an entry of its own is batched"),
    Bug(IDENTITY, "self.schema_version = answer.schema_version", "self.schema_version = self.schema_version or answer.schema_version",
        "a producer keeps the version of its schema, of which there is a new one"),
    # Permits.
    Bug(PERMITS, "        self.at_broker = 0\n        if generation != self.generation:", "        if generation != self.generation:",
        "permits of a lost connection still count"),
    Bug(PERMITS, "if due < self.threshold:", "if due <= self.threshold:", "permits are granted one message late"),
    Bug(PERMITS, "            self.at_broker -= count\n", "            self.at_broker = max(0, self.at_broker - count)\n",
        "permits that a batch has overdrawn are forgotten"),
    Bug(PERMITS, "        if generation != self.generation:\n            return False\n", "",
        "messages of a lost connection give permits back"),
    Bug(PERMITS, "return 1 - self.at_broker if self.waiting and not self.held else 0",
        "return 1 if self.waiting and not self.held and not self.at_broker else 0",
        "without a queue, overdrawn permits are never made up for"),
    # Acknowledgements.
    Bug(ACKS, "unacknowledged ^= unacknowledged & messages", "unacknowledged = 0",
        "one message of a batch acknowledges all"),
    Bug(ACKS, "up_to = (ledger_id, entry_id - 1) if unacknowledged else key", "up_to = key",
        "a cumulative acknowledgement within a batch reaches its end"),
    Bug(CONSUMER_ACKS, "self._tracker.rebound()\n        return self._send_all()",
        "self._tracker.rebound()\n        return self._send_held_in_transactions()",
        "acknowledgements that waited for a connection are not sent with it"),
    Bug(CONSUMER_ACKS, "return [*self._end(never_sent, not_sent_error(error)), *self._end(sent, unconfirmed)]",
        "return [*self._end(never_sent, None), *self._end(sent, None)]", "what has no receipt succeeds with the close"),
    # Messages.
    Bug(MESSAGES, "self.generation = self.generation.attached_to(connection, broker_resends=self.trackers.start.durable)", "pass",
        "messages of a lost connection are handed out beside those that come again"),
    Bug(MESSAGES, "self.generation = self.generation.sought()", "pass", "messages from before a seek are handed out after it"),
    Bug(CONSUMER, "return self.messages.trackers.start.is_rough", "return False",
        "a reader begins before the time it has sought"),
    Bug(MESSAGES, "return self._persistent and event.generation == self.generation", "return event.generation == self.generation",
        "a message that is not stored and cannot be decrypted keeps its permit"),
    Bug(MESSAGES, "due = permits.returned(self.generation, outcome.returned)", "due = 0",
        "dropped messages keep their permits"),
    Bug(MESSAGES, "self.trackers.start.opened(opened, self.trackers.chunks.unread_from(opened.position))", "pass",
        "a reader begins anew with each connection"),
    Bug(RECEIVER_QUEUE, "            self._entries.clear()\n            self.progress.passed = None", "            self.progress.passed = None",
        "queued messages are kept, and come a second time"),
    Bug(RECEIVER_QUEUE, "                self._opened.append(self.next_messages.pop(0))", "                self.next_messages.pop(0)",
        "a slice that is shortened loses messages"),
    Bug(RECEIVER_QUEUE, "upcoming = self._opened[-size:] if size else []", "upcoming = self._opened[:size][::-1] if size else []",
        "the messages of a batch come in a wrong order"),
    Bug(RECEIVER_QUEUE, "            if not self.generation.still_delivers(generation):\n                self._void_opened()\n", "",
        "opened messages are handed out that come again"),
    # Connections, lookups, and handlers.
    Bug(POOL, "            self._known[connection] = (key, now)\n            self._by_key.setdefault(key, connection)",
        "            self._by_key.setdefault(key, connection)", "a connection that was in use is never closed"),
    Bug(HANDLER, 'Row(RetryDue,              s.waiting,       s.looking_up,    None,                 "look_up_again"),',
        'Row(RetryDue,              s.waiting,       INTERNAL),', "nothing is tried again"),
    Bug(TRANSPORT, "        if self._on_activity is not None:\n            self._note_activity(self._on_activity)\n        if self._early", "        if self._early",
        "the bytes of a message are no sign of life until it is complete"),
    Bug(TRANSPORT, "        if self._on_activity is not None:\n            self._note_activity(self._on_activity)\n        self._pump()", "        self._pump()",
        "room for bytes that waited is no sign of life"),
    Bug(CONNECTION, 'Row(KeepaliveDue,       READY,          CLOSED,         "peer_is_silent",          "end_silent"),',
        "", "a peer that is silent is waited for"),
    Bug(REQUESTS, "return self._expire(Timeout(\"the broker has not answered in time; it may still do what was asked\"), now)",
        "return self._watch(now)", "requests have no timeout"),
    # Transactions.
    Bug(TRANSACTION, 'Row(Settled,               COMMIT_SETTLING,   ABORTING,          "has_failed",    "abort_instead"),', "",
        "a transaction commits without a message that has failed"),
    Bug(TRANSACTION, 'Row(Commit,                OPEN,              COMMIT_SETTLING,   None,            "settle"),',
        'Row(Commit,                OPEN,              COMMITTING,        None,            "send_commit"),',
        "a commit does not wait for what was sent"),
    # The broker.
    Bug(CURSOR, "                self._record.acknowledged(offset)\n                return\n", "                self._record.acknowledged(offset)\n",
        "a part of a batch acknowledges all"),
    Bug(CURSOR, "self.read_offset = self.mark_delete + 1\n\n    def acknowledge(", "pass\n\n    def acknowledge(",
        "what a consumer had not acknowledged is not sent again"),
    Bug(CURSOR, "            if offset in self._acknowledged:\n                continue\n            entry = managed_ledger.entry(offset)",
        "            entry = managed_ledger.entry(offset)", "acknowledged messages are sent again"),
    Bug(CURSOR, "        self.mark_delete = offset - 1\n        self.read_offset = max(self.read_offset, offset)",
        "        self.mark_delete = offset\n        self.read_offset = max(self.read_offset, offset)",
        "a cumulative acknowledgement takes one entry too many"),
    Bug(DISPATCHER, "        self._cursor.rewind()\n        self._selector.announce()", "        self._selector.announce()",
        "a consumer that takes over begins where the other had read"),
    Bug(DISPATCHER, "        if consumer is self._selector.active and not self._changing:\n            self._cursor.rewind()",
        "        if consumer is self._selector.active and not self._changing:", "a redelivery brings nothing"),
    Bug(PENDING_ACKS, "            self._cursor.release(entry, messages)\n        return [each", "            pass\n        return [each",
        "an aborted transaction keeps its acknowledgements"),
    Bug(PENDING_ACKS, "            self._cursor.acknowledge(entry, full(entry.messages) & ~messages)\n", "",
        "a committed transaction loses its acknowledgements"),
    Bug(TOPIC, "if first <= self.last_of(producer):", "if last < self.last_of(producer):", "a repeated message is stored again"),
    # Chunks, queues, and maps of entries.
    Bug(BATCH_BUILDER, "part.CopyFrom(metadata if chunk.stop == len(compressed) else not_last)", "part.CopyFrom(metadata)",
        "the first chunk counts for the whole message where a topic is loaded again"),
    Bug(CHUNKS, "        del self._pending[chunk.uuid]\n        first, last =", "        first, last =",
        "a message whose chunks are complete stays incomplete"),
    Bug(CHUNKS, 'AssembledMessage(message_id, b"".join([one.payload for one in chunks])',
        'AssembledMessage(message_id, b"".join([one.payload for one in chunks[:-1]])', "the last chunk is left out"),
    Bug(CHUNKS, "            outcome.permits = 0\n", "", "the last chunk gives a permit back too many"),
    Bug(CHUNKS, "elif not self._give_up_overtaken(chunk, outcome):", "else:", "chunks that will never be complete keep others out"),
    Bug(MESSAGES, "            self.trackers.chunks.pause()\n", "            pass\n",
        "chunks expire while the queue is full, and the rest of their message cannot come"),
    Bug(CHUNKS, "if self.ordered or self._was_given_back(pending.ids[0].position, now):", "if True:",
        "a message is given up whose key has moved to another consumer in its middle"),
    Bug(CHUNKS, "if seconds and since + seconds + CLOCKS_DIFFER < self._published:", "if False:",
        "chunks of a dead producer hold back the acknowledgements of a busy program"),
    Bug(PENDING, "elif is_too_late or STORED_BEFORE in item.message_ids:", "elif STORED_BEFORE in item.message_ids:",
        "a producer that was away for long goes on in the middle of a message"),
    Bug(SEND_QUEUE, "            del self.buffer[: 2 * count]", "            del self.buffer[:]",
        "messages are lost that were queued while others were packed"),
    Bug(SEND_QUEUE, "        if not self.buffer:\n            return True\n        self._notify_from", "        return True\n        self._notify_from",
        "an actor goes to sleep over a message that has just come"),
    Bug(SEND_QUEUE, "        if self.waiting:  # who comes now finds the room\n            self.waiting.wake_all()", "        pass",
        "callers that wait for room are not woken"),
    Bug(SEND_QUEUE, "            self.report([(messages.replies, error)])", "            pass", "messages that are queued end with no outcome"),
    Bug(RECEIVER_QUEUE, "        self.wake_callers(messages)\n", "        self.wake_callers(0)\n", "a caller that waits is not woken"),
    # Delays, listeners, priorities and dead letters.
    Bug(CONSUMER_TRACKERS, "            self.unacked_messages.negatively_acknowledged(entry)", "            pass",
        "a refused message comes again when its acknowledgement is overdue"),
    Bug(NEGATIVE_ACKS, "float(self.factor) ** redelivery_count", "float(self.factor) ** max(0, redelivery_count - 1)",
        "delays grow one redelivery late"),
    Bug(LISTENERS, "        self._paused = False\n        self.messages_arrived()", "        self._paused = False",
        "a listener that is resumed is not called before another message comes"),
    Bug(SELECTORS, "self.consumers.sort(key=lambda consumer: (consumer.request.priority_level, consumer.name))",
        "self.consumers.sort(key=lambda consumer: consumer.name)", "the level of the first consumer by name counts"),
    Bug(SELECTORS, "return max(one[0], other[0]) <= min(one[1], other[1])", "return max(one[0], other[0]) < min(one[1], other[1])",
        "ranges of keys may have one in common"),
    Bug(DEAD_LETTERS, 'letter_options(target, options), policy.initial_subscription_name or "")', 'letter_options(target, options), "")',
        "dead letters are kept for nobody"),
    # Schemas, table views, and compacted topics.
    Bug(SCHEMA_VERSIONS, "        key = base, version\n        with", '        key = base, b""\n        with',
        "who asks for two versions at once gets one of them"),
    Bug(TABLE_VIEW_UPDATES, "            self.values.pop(key, None)\n            self._note_update(key, None)",
        "            if self.values.pop(key, None) is not None:\n                self._note_update(key, None)",
        "a listener does not hear that a key is deleted which was not there"),
    Bug(OPENED_ENTRY, "        if compacted:\n", "        if False:\n", "what was compacted out of a batch is read"),
    # Transactions of the client.
    Bug(TRANSACTION, "return event.failure is not None", "return False", "a commit goes on without what has failed"),
    Bug(TRANSACTION, "(event.token, None)\n        return [CallDone((event.token,))]",
        "(event.token, None)\n        return []", "a registration that is answered lets nobody go on"),
    Bug(TRANSACTION, "return self._may_have_committed(event) and isinstance(event.error, TransactionNotFound)",
        "return False", "a commit that was repeated is said to have failed"),
    Bug(TRANSACTION, "return not self._decided and _status_there(event.error) == self.state.name", "return False",
        "an end that loses a race against itself is not waited for"),
    Bug(TRANSACTION, 'return _status_there(event.error) == "COMMITTED" or (', "return (",
        "a commit that loses a race against itself is in doubt"),
    # More of the broker.
    Bug(SHARED, "        self._add_to_replay(pending)\n        self.dispatch()", "        self.dispatch()",
        "what a consumer had that leaves is not given to others"),
    Bug(SHARED, "            if offset >= managed_ledger.base and self._cursor.remaining(managed_ledger.entry(offset)):",
        "            if offset >= managed_ledger.base:", "what was acknowledged meanwhile is delivered again"),
    Bug(SHARED, "                found.append(entry)\n", "", "negative acknowledgements bring nothing"),
    Bug(SHARED, "        batch.consumer.add_pending(entry, messages)\n", "", "nobody is known to have a message"),
    Bug(KEY_SHARED, "return consumer if holder is None or holder[0] is consumer else None", "return consumer",
        "a key moves to another consumer while the first one has messages of it"),
    Bug(KEY_SHARED, "            consumer = None if slot in self._waiting else self._ready_owner(slot)", "            consumer = self._ready_owner(slot)",
        "a message overtakes others of its key that wait"),
    Bug(KEY_SHARED, "        self._unblocked.update(dict.fromkeys(self._waiting))", "        pass", "keys wait for a consumer that has left"),
    Bug(BUFFER, "                self._managed_ledger.hide(entry)", "                pass", "aborted messages are delivered"),
    Bug(BUFFER, "self._managed_ledger.end if oldest is None else oldest.first_offset", "self._managed_ledger.end",
        "messages of open transactions are delivered"),
    Bug(COORDINATOR, "        self._clock.later(max(0, left_ms) / _MS, self._time_out, transaction.id.least)", "        pass",
        "transactions that are left behind stay open"),
    Bug(COORDINATOR, "                topic.end_transaction(transaction.id, commit=commit, low_water_mark=low_water_mark)",
        "                topic.end_transaction(transaction.id, commit=True, low_water_mark=low_water_mark)", "an abort commits messages"),
    Bug(COORDINATOR, "        ending.when_ended(None)", "        pass", "the end of a transaction is never confirmed"),
    Bug(PRODUCERS, "            successor.link.ready()\n", "", "who waits for a topic is not told that it is free"),
    Bug(TOPIC, "        self.managed_ledger.roll()\n", "        self.managed_ledger.roll()\n        self._message_deduplication.forget()\n",
        "an unload forgets what was stored, and repeats come through"),
    # Exactly-once batches of Spark.
    Bug(EXACTLY_ONCE, "        if self._is_written(written):\n", "        if False:\n", "a batch that is written is written again"),
    Bug(EXACTLY_ONCE, "                if record in earlier:", "                if False:", "a task sends again what another has begun to send"),
    Bug(EXACTLY_ONCE, "marker = self._control.add(self._marker, transaction)", "marker = self._control.add(self._marker)",
        "the marker of a batch is visible without the batch"),
    Bug(EXACTLY_ONCE, "        if not self._is_written(self._last_written()):\n            raise unknown\n        return marker", "        return marker",
        "a commit without an answer is taken for one that has happened"),
    # Streams that Spark reads.
    Bug(READ_TASK, "bisect_left(indexes, end.batch_index) if entry == end[:2] else len(indexes)", "len(indexes)",
        "a task reads a batch of messages beyond its end"),
    Bug(READ_TASK, "bisect_left(indexes, start.batch_index) if entry == start[:2] else 0", "0",
        "a task reads a batch of messages from its beginning"),
    Bug(SPARK_PROGRESS, "        return [EndBatch(event.end)]", "        return [EndBatch(self._start_of(event))]", "a batch ends where it begins"),
    Bug(MICRO_BATCHES, "PlanSpan(start.at(topic), until)", "PlanSpan(TOPIC_START, until)", "each batch is read from the topic's beginning"),
    Bug(MESSAGE_COUNTER, "            self.start, self.count = start, 0", "            self.start = start", "messages of the batch before are counted again"),
    Bug(MESSAGE_COUNTER, "        self.count += min(size, most)", "        self.count += 1", "a batch of messages counts as one"),
    Bug(CONTROL_TOPIC, "record.batch < batch)", "record.batch <= batch)", "the marker of a batch is forgotten that may run again"),
)  # fmt: skip
