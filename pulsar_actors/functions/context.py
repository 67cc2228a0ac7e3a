"""The `Context` of Pulsar Functions."""
# ruff: noqa: ANN401 - the runtimes decide what they give

from abc import abstractmethod
from typing import Any

__all__ = ["Context"]


class Context:
    """The message that a function processes, and what the function may do beside.

    The runtime of a function passes its own subclass. The methods of this class do nothing and return None, so a test
    makes a subclass with those that its function calls.
    """

    # The message.

    @abstractmethod
    def get_message_id(self) -> Any:
        """Return the id of the message."""

    @abstractmethod
    def get_message_key(self) -> Any:
        """Return the key of the message."""

    @abstractmethod
    def get_message_eventtime(self) -> Any:
        """Return the event time of the message."""

    @abstractmethod
    def get_message_properties(self) -> Any:
        """Return the properties of the message, as a dict."""

    @abstractmethod
    def get_current_message_topic_name(self) -> Any:
        """Return the topic of the message."""

    @abstractmethod
    def get_partition_key(self) -> Any:
        """Return the partition key of the message, if it has one."""

    @abstractmethod
    def get_ordering_key(self) -> Any:
        """Return the ordering key of the message, if it has one."""

    # The function.

    @abstractmethod
    def get_function_tenant(self) -> Any:
        """Return the tenant of the function."""

    @abstractmethod
    def get_function_namespace(self) -> Any:
        """Return the namespace of the function."""

    @abstractmethod
    def get_function_name(self) -> Any:
        """Return the name of the function."""

    @abstractmethod
    def get_function_id(self) -> Any:
        """Return the id of the function."""

    @abstractmethod
    def get_instance_id(self) -> Any:
        """Return the id of the instance that runs the function."""

    @abstractmethod
    def get_function_version(self) -> Any:
        """Return the version of the function."""

    @abstractmethod
    def get_logger(self) -> Any:
        """Return the logger of the function."""

    # Its settings.

    @abstractmethod
    def get_user_config_value(self, key: str) -> Any:
        """Return a value of the user's configuration, or None."""

    @abstractmethod
    def get_user_config_map(self) -> Any:
        """Return the user's configuration as a dict, which may be empty."""

    @abstractmethod
    def get_secret(self, secret_name: str) -> Any:
        """Return a secret, or None."""

    # Metrics.

    @abstractmethod
    def record_metric(self, metric_name: str, metric_value: Any) -> Any:
        """Record a number under the name of a metric."""

    # Topics.

    @abstractmethod
    def get_input_topics(self) -> Any:
        """Return the input topics of the function."""

    @abstractmethod
    def get_output_topic(self) -> Any:
        """Return the output topic of the function."""

    @abstractmethod
    def get_output_serde_class_name(self) -> Any:
        """Return the name of the class that serialises the output."""

    @abstractmethod
    def publish(  # noqa: PLR0913 - the official arguments
        self,
        topic_name: str,
        message: Any,
        serde_class_name: str = "serde.IdentitySerDe",
        properties: dict[str, str] | None = None,
        compression_type: Any = None,
        callback: Any = None,
        message_conf: dict[str, Any] | None = None,
    ) -> Any:
        """Publish a value to a topic, serialised by the class of that name.

        message_conf has the message's properties, partition_key, ordering_key, sequence_id, replication_clusters,
        disable_replication and event_timestamp. The properties may be given directly instead.
        """

    # Acknowledgements.

    @abstractmethod
    def ack(self, msgid: Any, topic: str) -> Any:
        """Acknowledge a message of a topic, or of a partition."""

    # State.

    @abstractmethod
    def incr_counter(self, key: str, amount: int) -> Any:
        """Add an amount to a counter of the function's state."""

    @abstractmethod
    def get_counter(self, key: str) -> Any:
        """Return a counter of the function's state."""

    @abstractmethod
    def del_counter(self, key: str) -> Any:
        """Delete a counter of the function's state."""

    @abstractmethod
    def put_state(self, key: str, value: Any) -> Any:
        """Set a value of the function's state."""

    @abstractmethod
    def get_state(self, key: str) -> Any:
        """Return a value of the function's state."""
