"""The base class of Pulsar Functions."""

from abc import abstractmethod
from typing import Any

from pulsar_actors.functions.context import Context

__all__ = ["Function"]


class Function:
    """A function of a message. A subclass has a `process`.

    As in the official client, nothing forces a subclass to have it: a function without it returns None.
    """

    @abstractmethod
    def process(self, input: Any, context: Context) -> Any:  # noqa: A002, ANN401 - the official names, and any value
        """Process the value of a message. What this returns is published to the output topic, unless it is None."""
