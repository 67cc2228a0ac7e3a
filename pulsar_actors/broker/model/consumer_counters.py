"""What the statistics of a consumer count."""


class ConsumerCounters:
    """What the statistics say of one consumer; times are in milliseconds since 1970."""

    __slots__ = (
        "bytes_out",
        "chunks_out",
        "connected_ms",
        "entries_out",
        "first_flow_ms",
        "first_sent_ms",
        "last_ack_ms",
        "last_flow_ms",
        "last_sent_ms",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
    )

    def __init__(self, now_ms: int) -> None:
        self.connected_ms = now_ms
        self.entries_out = self.bytes_out = self.messages_out = self.messages_acked = self.messages_redelivered = (
            self.chunks_out
        ) = 0
        self.first_flow_ms = self.last_flow_ms = self.first_sent_ms = self.last_sent_ms = self.last_ack_ms = 0

    def flowed(self, now_ms: int) -> None:
        """Count a grant of permits."""
        self.last_flow_ms = now_ms
        self.first_flow_ms = self.first_flow_ms or now_ms

    def sent(self, now_ms: int) -> None:
        """Count a delivery."""
        self.last_sent_ms = now_ms
        self.first_sent_ms = self.first_sent_ms or now_ms
