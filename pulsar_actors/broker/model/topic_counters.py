"""What the statistics of a topic count."""

from dataclasses import dataclass


@dataclass(slots=True)
class TopicCounters:
    """What the statistics count since the topic was loaded; times are in milliseconds since 1970."""

    created_ms: int
    loaded_ms: int
    messages_in: int = 0
    bytes_in: int = 0
    chunks_in: int = 0
    messages_out: int = 0  # of subscriptions that have gone
    bytes_out: int = 0
    last_publish_ms: int = 0
