"""The origin of each event that changes a state: the lifeline at which its arrow in a sequence diagram begins.

The machines need not know: an event has the same rows whoever sends it. So it is written here.
"""

from enum import Enum, unique
from typing import Final


@unique
class Origin(Enum):
    """The origin of an event."""

    PROGRAM = "The user's program, by a call."
    BROKER = "A broker, by a command, an answer, or what becomes of its socket."
    LOOKUP = "The client's lookups."
    CONNECTION = "A connection of the client."
    CLIENT = "The client itself, or another of its actors."
    ITSELF = "The machine itself, or a part of it."
    TIME = "A timer."


_EVENTS: Final = {
    Origin.PROGRAM: """
        abort close close_client commit handle_released join leave open seek shut_down_client unsubscribe
        unsubscribe_all
    """,
    Origin.BROKER: """
        answered arrived begin_failed begun broker_closed challenged close_answered connected coordinator_connected
        coordinator_refused end_answered end_failed last_message_id_answered line_checked lookup_answered lookup_refused
        matching_topics_listed partitions_counted peer_active producer_created query_failed receipts_arrived redirected
        refused request_refused request_rejected seek_answered seek_failed send_refused socket_lost stream_broken
        subscribed tcp_opened tls_agreed topic_list_changed topic_migrated unsubscribe_answered unsubscribe_failed
        watch_refused watch_started
    """,
    Origin.LOOKUP: "looked_up lookup_failed",
    Origin.CONNECTION: """
        consumer_attached coordinator_attached detached lookup_attached producer_attached watcher_attached
        watcher_detached
    """,
    Origin.CLIENT: """
        abort_connection cancel close_coordinator close_gracefully close_if_unused close_transaction cluster_probed
        credentials_failed credentials_fetched dial end_at_once end_coordinator end_transaction enqueue
        forget_transaction leave_cluster lookup_permit_denied lookup_permit_granted member_answered member_lost
        member_opened open_coordinator remaining service_changed start_failover start_watching stop_failover
        stop_watching
    """,
    Origin.ITSELF: """
        acks_voided bound broker_accepted closing cluster_left connection_over discover discover_later drained ended
        handle_not_created machine_ended seek_refused seek_sent settled stop_discovery transaction_over unbound
    """,
    Origin.TIME: """
        backoff_over call_timed_out check_due close_timed_out coordinator_close_due discovery_due drain_timed_out
        first_creation_timed_out flush_timed_out handshake_timed_out keepalive_due line_check_timed_out
        operation_timed_out request_timed_out
        repeat_end_due retry_due seek_timed_out transaction_timeout_due watch_retry_due
    """,
}

ORIGINS: Final = {event: origin for origin, events in _EVENTS.items() for event in events.split()}
"""The origin of each event, by the name that the event has in a history."""
