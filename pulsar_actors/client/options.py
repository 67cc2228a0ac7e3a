"""The base class of options: the arguments of one call, complete and checked.

A subclass lists them in their order, each with its type, its check and its default:

    class TableViewOptions(Options):
        topic: Annotated[str, check.topic]
        subscription_name: Annotated[str | None, check.optional(check.text)] = None

To type checkers, a subclass is a frozen dataclass. It is none, because Python writes and compiles the methods of each
dataclass when it is imported: with so many fields, that takes as long as to load ten modules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pulsar_actors.client.validation import Check, check_fields

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Any:  # noqa: ANN401 - a decorator
        """Return a decorator without effect."""
        return lambda decorated: decorated


__all__ = ["Options"]

_O = TypeVar("_O", bound="Options")


@dataclass_transform(frozen_default=True)
class Options:
    """Options that compare and pickle. An object has those that are no defaults; these are attributes of its class."""

    names: ClassVar[tuple[str, ...]] = ()
    """All of them, in their order."""
    _checks: ClassVar[Mapping[str, Check]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: hint.__metadata__[0] for name, hint in cls.__annotations__.items()}
        cls.names = (*cls.names, *own)
        cls._checks = {**cls._checks, **own}

    if not TYPE_CHECKING:  # type checkers derive it from the fields

        def __init__(self, *in_order: object, **by_name: object) -> None:
            if len(in_order) > len(self.names):
                raise TypeError(f"{type(self).__name__} takes {len(self.names)} arguments, got {len(in_order)}")
            given = dict(zip(self.names, in_order, strict=False))
            wrong = [name for name in by_name if name in given or name not in self.names]
            if wrong:
                raise TypeError(f"{type(self).__name__} takes no {wrong[0]}, or takes it once")
            given |= by_name
            missing = [name for name in self.names if name not in given and not hasattr(self, name)]
            if missing:
                raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")
            for name, value in given.items():
                if value is not getattr(self, name, given):  # the default; `given` is the value of none
                    object.__setattr__(self, name, value)
            self.check_all()

    def check_all(self) -> None:
        """Check each option by itself; a subclass also checks those that must go together."""
        check_fields(self, self._checks)

    def replace(self: _O, **changes: Any) -> _O:  # noqa: ANN401 - the values of options
        """Return other options, with these changes. All are checked again."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make others with replace()")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.names)

    __hash__ = None  # type: ignore[assignment] # options may have a dict or a list

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.__dict__)}>"
