"""What holds connections until it is closed: a client, and all that is made with it."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, TypeVar

C = TypeVar("C", bound="Closeable")


class Closeable(ABC):
    """Something that `with` closes at the end of its block, and that stays in the process where it was made."""

    @abstractmethod
    def close(self) -> None:
        """Close it. Doing it again does nothing."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        name = type(self).__name__
        raise TypeError(f"a {name} holds connections and cannot be pickled: make one where it is needed")
