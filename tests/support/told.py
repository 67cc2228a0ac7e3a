"""What a program tells, line by line, and how two clients' lines are compared.

Each line has a label, by which a difference between the clients can be named.
"""

from collections.abc import Callable
from typing import Any

__all__ = ["Raised", "Told", "differing"]


class Raised:
    """An error, by the names of its classes: two are the same to a program that catches the one or the other."""

    def __init__(self, error: BaseException) -> None:
        self.classes = [one.__name__ for one in type(error).__mro__]

    def is_caught_like(self, other: "Raised") -> bool:
        """Say whether each `except` that catches the other one catches this one."""
        return {*other.classes} <= {*self.classes}

    def __repr__(self) -> str:
        return f"{self.classes[0]} raised"


class Told(dict[str, Any]):
    """What a program has told, by label."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a dict would not: it makes an object without arguments."""
        return Told, (self._topic,), None, None, iter(self.items())

    def __call__(self, label: str, *values: Any) -> None:
        assert label not in self, f"two lines are called {label}"
        plain = [value if isinstance(value, Raised) else repr(value).replace(self._topic, "TOPIC") for value in values]
        self[label] = plain

    def outcome(self, label: str, call: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Tell what a call returns, or that it raises; of objects without a value, the class."""
        try:
            found = call(*args, **options)
        except Exception as error:  # noqa: BLE001 - any is compared
            self(label, Raised(error))
        else:
            plain = found is None or isinstance(found, (bool, int, float, str, bytes, list, tuple, dict))
            self(label, found if plain else type(found).__name__)


def differing(official: Told, ours: Told) -> dict[str, tuple[Any, Any]]:
    """Return what two clients told differently, by label."""
    lines = {label: (official.get(label), ours.get(label)) for label in official.keys() | ours.keys()}
    return {label: both for label, both in lines.items() if not _are_alike(*both)}


def _are_alike(official: Any, ours: Any) -> bool:
    match official, ours:
        case [Raised() as there], [Raised() as here]:
            return here.is_caught_like(there)
        case _:
            return official == ours
