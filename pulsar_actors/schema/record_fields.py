"""The fields of a class with type hints: a dataclass, a TypedDict, a NamedTuple, a pydantic model, attrs, msgspec.

A default that a factory makes is kept only if it is empty, as of `field(default_factory=list)`. A factory may make
another value each time, and a definition has to be the same each time.
"""

# Type hints are data here, of which a type checker knows nothing.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnnecessaryCast=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportUnknownLambdaType=false

import dataclasses
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.named_tuple import NamedTuple

__all__ = ["NOTHING", "RecordField", "RecordFields", "fields_of", "is_pydantic", "name_of"]

NOTHING: Final = object()
"""Stands for no value."""

VARIES: Final = object()
"""Stands for a default that the class knows, and a definition does not."""


class RecordField(NamedTuple):
    """A field of a class: its name there and in the schema, its hint, and its default if it has one."""

    name: str
    wire_name: str
    hint: Any
    default: Any = NOTHING
    may_be_absent: bool = False


class RecordFields(NamedTuple):
    """A class of records: its fields, and how an instance is made from a dict of its values."""

    fields: list[RecordField]
    make: Callable[[dict[str, Any]], Any]
    get: Callable[[Any, str], Any]


def fields_of(hint: Any) -> RecordFields | None:  # noqa: ANN401 - anything
    """Return the fields of a class, or of a generic one with its arguments; None if it is no class of records."""
    kind: Any = get_origin(hint) or hint
    if typing.is_typeddict(kind):
        found: RecordFields | None = _fields_of_typed_dict(kind)
    else:
        found = _fields_of_class(kind) if isinstance(kind, type) else None
    variables = _variables_of(hint, kind)
    if found is None or not variables:
        return found
    return found._replace(fields=[one._replace(hint=_substituted(one.hint, variables)) for one in found.fields])


def is_pydantic(kind: Any) -> bool:  # noqa: ANN401 - anything
    """Return whether a class is a pydantic model."""
    return hasattr(kind, "model_validate") and hasattr(kind, "model_fields")


def name_of(one: object) -> str:
    """Return the name of a class, or of another hint."""
    return str(getattr(one, "__name__", None) or getattr(one, "_name", None) or one)


def _variables_of(hint: Any, kind: Any) -> dict[Any, Any]:  # noqa: ANN401 - types
    """Return what the type variables of a class, and of those that it extends, stand for."""
    variables: dict[Any, Any] = {}
    if get_origin(hint) is not None:
        variables.update(zip(getattr(kind, "__parameters__", ()), get_args(hint), strict=False))
    for one in getattr(kind, "__mro__", ()):
        for base in one.__dict__.get("__orig_bases__", ()):
            parameters = getattr(get_origin(base), "__parameters__", ())
            for variable, argument in zip(parameters, get_args(base), strict=False):
                variables.setdefault(variable, _substituted(argument, variables))
    return {variable: argument for variable, argument in variables.items() if variable is not argument}


def _substituted(hint: Any, variables: dict[Any, Any]) -> Any:  # noqa: ANN401 - types
    if isinstance(hint, TypeVar):
        return variables.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if get_origin(hint) is None or not parameters:
        return hint
    return hint[tuple(variables.get(one, one) for one in parameters)]


def _fields_of_class(kind: Any) -> RecordFields | None:  # noqa: ANN401 - a class
    if is_pydantic(kind):
        return _fields_of_pydantic(kind)
    hints = _hints_of(kind)
    if dataclasses.is_dataclass(kind):
        fields = [
            RecordField(one.name, one.name, hints[one.name], _dataclass_default(one))
            for one in dataclasses.fields(kind)
            if one.init
        ]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = kind._field_defaults
        if not hints.keys() >= set(kind._fields):
            raise InvalidArgument(f"{name_of(kind)} has no type hints: use typing.NamedTuple")
        fields = [RecordField(one, one, hints[one], defaults.get(one, NOTHING)) for one in kind._fields]
    elif hasattr(kind, "__attrs_attrs__"):
        return _fields_of_attrs(kind, hints)
    elif hasattr(kind, "__struct_fields__"):
        fields = _fields_of_msgspec(kind, hints)
    else:
        return None
    return RecordFields(fields, lambda values: kind(**values), getattr)


def _hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    try:
        return typing.get_type_hints(kind, localns={name_of(kind): kind}, include_extras=True)
    except (NameError, TypeError) as fault:  # TypeError: of a hint that this version of Python does not understand
        raise InvalidArgument(f"a type hint of {name_of(kind)} is not known: {fault}") from fault


def _dataclass_default(field: "dataclasses.Field[Any]") -> Any:  # noqa: ANN401 - a user's
    if field.default is not dataclasses.MISSING:
        return field.default
    return NOTHING if field.default_factory is dataclasses.MISSING else _made(field.default_factory)


def _made(factory: Callable[[], Any]) -> Any:  # noqa: ANN401 - a user's
    """Return the default that a factory makes, if it is the same each time."""
    value = factory()
    return value if value is None or (isinstance(value, (list, dict, set, tuple, frozenset)) and not value) else VARIES


def _fields_of_typed_dict(kind: Any) -> RecordFields:  # noqa: ANN401 - a TypedDict
    fields: list[RecordField] = []
    for name, hint in _hints_of(kind).items():
        is_absent = name not in kind.__required_keys__
        marker = name_of(get_origin(hint))
        if marker in {"NotRequired", "Required", "ReadOnly"}:
            is_absent = marker == "NotRequired" or (marker == "ReadOnly" and is_absent)
            (hint,) = get_args(hint)  # noqa: PLW2901 - without the marker
        fields.append(RecordField(name, name, hint, may_be_absent=is_absent))
    return RecordFields(fields, lambda values: values, lambda record, name: record[name])


def _fields_of_pydantic(kind: Any) -> RecordFields:  # noqa: ANN401 - a model
    if getattr(kind, "__pydantic_root_model__", False):
        raise InvalidArgument(f"{name_of(kind)} is a root model, which has no fields")
    if not kind.__pydantic_complete__:
        kind.model_rebuild()  # raises what it misses
    fields: list[RecordField] = []
    for name, info in kind.model_fields.items():
        default = NOTHING if info.is_required() else info.default
        if info.default_factory is not None:
            takes_data = getattr(info, "default_factory_takes_validated_data", False)
            default = VARIES if takes_data else _made(info.default_factory)
        with_metadata = (info.annotation, *info.metadata)  # a star in brackets is more than mypy grants Python 3.10
        hint = Annotated[with_metadata] if info.metadata else info.annotation
        fields.append(RecordField(name, str(info.serialization_alias or info.alias or name), hint, default))
    aliases = {
        name: info.validation_alias if isinstance(info.validation_alias, str) else info.alias or name
        for name, info in kind.model_fields.items()
    }

    def make(values: dict[str, Any]) -> Any:  # noqa: ANN401 - a model
        return kind.model_validate({aliases[name]: value for name, value in values.items()})

    return RecordFields(fields, make, getattr)


def _fields_of_attrs(kind: Any, hints: dict[str, Any]) -> RecordFields:  # noqa: ANN401 - a class of attrs
    fields: list[RecordField] = []
    arguments: dict[str, str] = {}
    for one in kind.__attrs_attrs__:
        if not one.init:
            continue
        default = one.default
        factory = getattr(default, "factory", None)
        if factory is not None:
            default = VARIES if default.takes_self else _made(factory)
        elif name_of(type(default)) == "_Nothing":
            default = NOTHING
        fields.append(RecordField(one.name, one.name, hints[one.name], default))
        arguments[one.name] = getattr(one, "alias", None) or one.name.lstrip("_")
    return RecordFields(
        fields, lambda values: kind(**{arguments[name]: value for name, value in values.items()}), getattr
    )


def _fields_of_msgspec(kind: Any, hints: dict[str, Any]) -> list[RecordField]:  # noqa: ANN401 - a Struct
    names, defaults = kind.__struct_fields__, list(kind.__struct_defaults__)
    defaults = [NOTHING] * (len(names) - len(defaults)) + defaults
    fields: list[RecordField] = []
    for name, wire_name, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
        factory = getattr(default, "factory", None)
        is_missing = default is NOTHING or name_of(type(default)) == "NoDefaultType"
        value = NOTHING if is_missing else default if factory is None else _made(factory)
        fields.append(RecordField(name, wire_name, hints[name], value))
    return fields
