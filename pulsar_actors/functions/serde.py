"""The serializers of Pulsar Functions: values to the bytes of messages, and back."""

import pickle
from abc import abstractmethod
from typing import Any, Final

__all__ = ["IdentitySerDe", "PickleSerDe", "SerDe"]


class SerDe:
    """Converts values to bytes and back. A subclass has both methods."""

    @abstractmethod
    def serialize(self, input: Any) -> bytes:  # noqa: A002, ANN401 - the official names, and any value
        """Convert a value to the bytes of a message."""

    @abstractmethod
    def deserialize(self, input_bytes: bytes) -> Any:  # noqa: ANN401 - any value
        """Convert the bytes of a message to a value."""


class PickleSerDe(SerDe):
    """Pickles values. Only for topics of trusted producers: a pickle can run any code where it is loaded."""

    def serialize(self, input: Any) -> bytes:  # noqa: A002, ANN401 - the official names, and any value
        """Pickle a value."""
        return pickle.dumps(input)

    def deserialize(self, input_bytes: bytes) -> Any:  # noqa: ANN401 - any value
        """Load a pickle."""
        return pickle.loads(input_bytes)  # noqa: S301 - see the class


_TEXT_TYPES: Final = (int, float, complex, str)


class IdentitySerDe(SerDe):
    """The default: converts numbers and text to UTF-8, and guesses the type on the way back.

    The guess is the first of int, float, complex and str that takes the text, or else the bytes as they are. So the
    text "12" comes back as the number 12, "nan" as a float, and " 7 " as 7. Runtimes of functions and functions of
    others rely on that. Use a `SerDe` of your own if the type matters.
    """

    def serialize(self, input: Any) -> bytes:  # noqa: A002, ANN401 - the official names, and any value
        """Convert an int, a float, a complex, a str or bytes; no bool and no other subclass of these."""
        if type(input) in _TEXT_TYPES:
            return str(input).encode()
        if type(input) is bytes:
            return input
        raise TypeError(f"IdentitySerDe converts int, float, complex, str and bytes, not {type(input).__name__}")

    def deserialize(self, input_bytes: bytes) -> Any:  # noqa: ANN401 - any value
        """Guess the value. Unlike in the official client, a Ctrl-C meanwhile is not swallowed."""
        try:
            text = input_bytes.decode()
        except (AttributeError, UnicodeDecodeError):  # a value that was converted before is left alone
            return input_bytes
        for kind in _TEXT_TYPES:
            try:
                return kind(text)
            except (ValueError, OverflowError):
                continue
        return input_bytes
