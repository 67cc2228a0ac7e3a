"""The schema of a class with type hints: a dataclass, a TypedDict, a NamedTuple, a pydantic model, attrs, msgspec.

    @dataclass
    class Order:
        item: str
        count: int = 1
        note: str | None = None

    schema = JsonSchema(Order)      # or AvroSchema(Order)

| hint | Avro |
|---|---|
| `int`, `float`, `str`, `bytes`, `bool` | long, double, string, bytes, boolean |
| `Annotated[int, "int"]`, `Annotated[float, "float"]` | int, float |
| `list[T]`, `set[T]`, `tuple[T, ...]`; `dict[str, T]` | array; map |
| `T | None` | `["null", T]`, with the default null |
| an Enum, `Literal["a", "b"]` | enum |
| `datetime`, `date`, `time`, `UUID` | timestamp-micros (aware ones only), date, time-micros, uuid |
| `Annotated[Decimal, (10, 2)]` | decimal, of that precision and scale |
| another such class; a union of them | record; union (only in Avro: JSON has no names) |

In JSON times, decimals and UUIDs are text, and their type in the schema is string; bytes are base 64. A default of a
field is its default in the schema. The name of the record is the name of the class; `_avro_namespace` in the class sets
a namespace, as in a `Record`.
"""

# Type hints are data here, of which a type checker knows nothing.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnnecessaryCast=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false

import dataclasses
import types
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, EnumMeta
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, cast, get_args, get_origin
from uuid import UUID

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.schema.codec import SAME, AvroType, Codec, RecordType, in_list, in_map
from pulsar_actors.schema.definition import RecordMeta, record_codec

__all__ = ["hinted_record_type"]

_NOTHING: Final = object()


class _Node(NamedTuple):
    """One type: its Avro schema, its codec, the Python class of its values, and the kind of what is written."""

    avro: Any
    codec: Codec
    values: Any
    wire: str
    record_name: str = ""


class _FieldOf(NamedTuple):
    """A field of a class: its name there and in the schema, its hint, and its default if it has one."""

    name: str
    wire_name: str
    hint: Any
    default: Any = _NOTHING
    may_be_absent: bool = False


class _Shape(NamedTuple):
    """A class of records: its fields, and how an instance is made from a dict of its values."""

    fields: list[_FieldOf]
    make: Callable[[dict[str, Any]], Any]
    get: Callable[[Any, str], Any]


def hinted_record_type(record_cls: Any, *, as_json: bool) -> RecordType:  # noqa: ANN401 - a type, or a hint
    """Return the schema and the codec of a class. Raise InvalidArgument if it has none."""
    builder = _Builder(as_json=as_json)
    node = builder.node(record_cls, getattr(record_cls, "__name__", str(record_cls)))
    if not node.record_name:
        raise InvalidArgument(f"a schema of records takes a class of records, not {record_cls!r}")
    codec = node.codec
    if as_json and hasattr(record_cls, "model_dump_json"):
        codec = Codec(lambda model: model.model_dump_json(by_alias=True), record_cls.model_validate_json)
    return RecordType(node.avro, codec, node.values, builder.has_unions_of_records)


class _Builder:
    """Builds the nodes of one schema. A named type is defined once; after that its name stands."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._named: dict[Any, tuple[str, Codec]] = {}
        self.has_unions_of_records = False

    def node(self, hint: Any, where: str) -> _Node:  # noqa: ANN401, C901, PLR0911 - a hint; a line for each kind
        """Return the node of a hint; `where` is for errors."""
        extras: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *rest = get_args(hint)
            extras = tuple(rest)
        while hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _PRIMITIVES:
            return self._primitive(hint, extras, where)
        if hint is Decimal:
            return self._decimal(extras, where)
        if hint in _TEXTS:
            return self._text(hint)
        if origin in {Union, getattr(types, "UnionType", Union)}:
            return self._union([self.node(one, where) for one in arguments], where)
        if origin is Literal:
            return self._literal(arguments, where)
        if isinstance(hint, EnumMeta):
            return self._enum(cast("type[Enum]", hint))
        container = origin or hint
        if container in _CONTAINERS:
            return self._container(_CONTAINERS[container], arguments, where)
        if container in {dict, Mapping}:
            return self._map(arguments, where)
        return self._record(hint, where)

    # Values.

    def _primitive(self, hint: Any, extras: tuple[Any, ...], where: str) -> _Node:  # noqa: ANN401
        avro, wire = _PRIMITIVES[hint]
        narrow = {int: "int", float: "float"}.get(hint)
        if narrow is not None and (narrow in extras or _FIELD_NAMES[narrow] in {_name_of(one) for one in extras}):
            avro = narrow
        if hint is bytes and self._as_json:
            dump = lambda value: b64encode(value).decode()  # noqa: E731 - a table's row
            return _Node(avro, Codec(_checked(dump, bytes, where), b64decode), bytes, "string")
        check = _whole(32 if avro == "int" else 64, where) if hint is int else _checked(None, hint, where)
        return _Node(avro, Codec(check, check if self._as_json else None), hint, wire)

    def _decimal(self, extras: tuple[Any, ...], where: str) -> _Node:
        if self._as_json:
            return _Node("string", Codec(_checked(str, Decimal, where), Decimal), Decimal, "string")
        sizes = next((one for one in extras if isinstance(one, tuple)), None)
        if sizes is None:
            raise InvalidArgument(f"{where}: Avro needs the precision and the scale: Annotated[Decimal, (10, 2)]")
        precision, scale = cast("tuple[int, int]", sizes)
        avro = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        return _Node(avro, Codec(_checked(None, Decimal, where)), Decimal, "Decimal")

    def _text(self, hint: Any) -> _Node:  # noqa: ANN401 - one of four classes
        avro, load = _TEXTS[hint]
        dump = _aware if hint is datetime else None
        if not self._as_json:
            return _Node(avro, Codec(dump), hint, hint.__name__)
        text = str if hint is UUID else lambda value: (dump(value) if dump else value).isoformat()
        return _Node("string", Codec(text, load), hint, "string")

    def _literal(self, symbols: tuple[Any, ...], where: str) -> _Node:
        if not all(isinstance(one, str) and one.isidentifier() for one in symbols):
            raise InvalidArgument(f"{where}: the values of a Literal are names, because they become symbols of an enum")
        name = "_".join(symbols)
        check = _one_of(frozenset(symbols), where)
        known = self._named.setdefault(("Literal", symbols), (name, Codec(check, check)))
        definition = {"type": "enum", "name": name, "symbols": list(symbols)}
        return _Node(self._once(("Literal", symbols), definition), known[1], str, "string")

    def _enum(self, hint: type[Enum]) -> _Node:
        members = hint.__members__

        def load(value: Any) -> Enum:  # noqa: ANN401 - of JSON, where it may be anything
            if value not in members:
                raise ValueError(f"{hint.__name__} has no member {value!r}")
            return members[value]

        definition = {"type": "enum", "name": hint.__name__, "symbols": [one.name for one in hint]}
        codec = Codec(_checked(attrgetter("name"), hint, hint.__name__), load)
        self._named.setdefault(hint, (hint.__name__, codec))
        return _Node(self._once(hint, definition), codec, hint, "string")

    # What holds values.

    def _container(self, make: Callable[[Any], Any], arguments: tuple[Any, ...], where: str) -> _Node:
        if not arguments or (make is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis)):  # noqa: PLR2004
            raise InvalidArgument(f"{where}: say of what, as list[str] or tuple[str, ...] do")
        item = self.node(arguments[0], where)
        dump, load = in_list(item.codec.dump), in_list(item.codec.load)
        values = (list, tuple, set, frozenset) if make is list else make
        return _Node(
            {"type": "array", "items": item.avro},
            Codec(
                _checked(lambda value: dump(value) if dump else list(value), values, where),
                _loaded(load, make, list, where),
            ),
            values,
            "array",
        )

    def _map(self, arguments: tuple[Any, ...], where: str) -> _Node:
        if len(arguments) != 2 or arguments[0] is not str:  # noqa: PLR2004 - key and value
            raise InvalidArgument(f"{where}: the keys of a map are text: dict[str, T]")
        item = self.node(arguments[1], where)
        dump, load = in_map(item.codec.dump), in_map(item.codec.load)
        codec = Codec(_checked(dump, Mapping, where), _loaded(load, None, dict, where))
        return _Node({"type": "map", "values": item.avro}, codec, Mapping, "object")

    def _union(self, nodes: list[_Node], where: str) -> _Node:  # noqa: C901 - with the functions of its codec
        nodes.sort(key=lambda node: node.wire != "null")
        records = {node.record_name: node for node in nodes if node.record_name}
        if len(records) > 1:
            if self._as_json:
                raise InvalidArgument(f"{where}: JSON does not say which record of a union it is: use AvroSchema")
            self.has_unions_of_records = True
        others = [node.wire for node in nodes if not (node.record_name and len(records) > 1)]
        if len(set(others)) < len(others):
            raise InvalidArgument(f"{where}: two members of the union look the same when they are written")
        named = len(records) > 1
        by_wire = {node.wire: node for node in nodes if not (named and node.record_name)}

        def dump(value: Any) -> Any:  # noqa: ANN401 - of one of the members
            for node in nodes:
                if _is_value_of(node, value):
                    dumped = value if node.codec.dump is None else node.codec.dump(value)
                    return (node.record_name, dumped) if named and node.record_name else dumped
            raise TypeError(f"{where} takes none of {type(value).__name__}")

        def load(value: Any) -> Any:  # noqa: ANN401 - of one of the members
            if named and isinstance(value, tuple):
                name, value = cast("tuple[str, Any]", value)
                node: _Node | None = records[name]
            else:
                wire = _WIRES.get(type(value), type(value).__name__)
                node = by_wire.get(wire) or (by_wire.get("float") if wire == "int" else None)
            if node is None:
                raise TypeError(f"{where} takes none of {type(value).__name__}")
            return value if node.codec.load is None else node.codec.load(value)

        avro = [node.avro for node in nodes]
        if len(nodes) == 2 and nodes[0].wire == "null":  # noqa: PLR2004 - the common `T | None`
            return _Node(avro, _optional(nodes[1].codec), (nodes[1].values, type(None)), "union")
        return _Node(avro, Codec(dump, load), object, "union")

    # Records.

    def _record(self, hint: Any, where: str) -> _Node:  # noqa: ANN401 - a class
        if isinstance(hint, RecordMeta):
            official: Any = hint
            codec = record_codec(official, as_json=self._as_json, java_style=self._as_json)
            self._named.setdefault(hint, (hint.__name__, codec))
            return _Node(self._once(hint, official.schema()), codec, hint, "object", hint.__name__)
        shape = _shape_of(hint)
        if shape is None:
            raise InvalidArgument(f"{where}: {_name_of(hint)} is no type that a schema can have")
        namespace = getattr(hint, "_avro_namespace", None)
        full_name = f"{namespace}.{hint.__name__}" if namespace else str(hint.__name__)
        values = Mapping if typing.is_typeddict(hint) else hint
        known = self._named.get(hint)
        if known is not None:
            return _Node(known[0], known[1], values, "object", full_name)
        later: list[Codec] = []  # a record may contain itself: its codec is complete when all its fields are

        def dump(value: Any) -> Any:  # noqa: ANN401 - a record
            return cast("Any", later[0].dump)(value)

        def load(value: Any) -> Any:  # noqa: ANN401 - from the wire
            return cast("Any", later[0].load)(value)

        self._named[hint] = full_name, Codec(dump, load)
        avro: dict[str, Any] = {"type": "record", "name": hint.__name__}
        if namespace:
            avro["namespace"] = namespace
        columns = [self._column(one, f"{hint.__name__}.{one.name}") for one in shape.fields]
        avro["fields"] = [definition for definition, _, _ in columns]
        codecs = [(field, codec) for _, field, codec in columns]
        later.append(_record_codec(hint.__name__, codecs, shape, values, as_json=self._as_json))
        return _Node(avro, later[0], values, "object", full_name)

    def _column(self, field: _FieldOf, where: str) -> tuple[dict[str, Any], _FieldOf, Codec]:
        node = self.node(field.hint, where)
        avro, codec = node.avro, node.codec
        is_optional = isinstance(avro, list) and "null" in avro
        default = field.default
        if field.may_be_absent and not is_optional:
            avro = ["null", *avro] if isinstance(avro, list) else ["null", avro]
            codec, is_optional = _optional(codec), True
        if default is _NOTHING and is_optional:
            default = None
            field = field._replace(default=None)
        definition: dict[str, Any] = {"name": field.wire_name, "type": avro}
        written = _NOTHING if default is _NOTHING else self._default(default)
        if written is not _NOTHING:
            if isinstance(avro, list) and written is not None:  # the default's branch comes first
                definition["type"] = self._with_first(field.hint, avro, default, where)
            definition["default"] = written
        return definition, field, codec

    def _with_first(self, hint: Any, avro: list[Any], default: Any, where: str) -> list[Any]:  # noqa: ANN401 - of a field
        """Put the branch of the default first, as Avro wants it, and null last."""
        fits = [_is_value_of(self.node(one, where), default) for one in get_args(hint) if one is not type(None)]
        others = [one for one in avro if one != "null"]
        first = fits.index(True) if True in fits else 0
        ordered = [others[first], *others[:first], *others[first + 1 :]]
        return [*ordered, "null"] if "null" in avro else ordered

    def _default(self, value: Any) -> Any:  # noqa: ANN401 - a user's
        """Write a default into the schema; one that JSON cannot show is left out."""
        match value:
            case Enum():
                return value.name
            case None | bool() | int() | float() | str():
                return value
            case bytes():
                return b64encode(value).decode() if self._as_json else value.decode("latin-1")
            case list() | tuple() | set() | frozenset() | dict() if not value:
                return {} if isinstance(value, dict) else []
            case _:
                return _NOTHING

    def _once(self, key: Any, definition: AvroType) -> AvroType:  # noqa: ANN401 - a type
        """Return a definition the first time, and its name after that."""
        marker = ("defined", key)
        if marker in self._named:
            return self._named[key][0]
        self._named[marker] = ("", SAME)
        return definition


def _record_codec(  # noqa: C901 - with the functions of the codec
    name: str,
    columns: Sequence[tuple[_FieldOf, Codec]],
    shape: _Shape,
    values: Any,  # noqa: ANN401 - a class
    *,
    as_json: bool,
) -> Codec:
    get, make = shape.get, shape.make
    dumps = [(one.name, one.wire_name, one, codec.dump) for one, codec in columns]
    loads = [(one.wire_name, one.name, one, codec.load) for one, codec in columns]

    def dump(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a record
        if not isinstance(value, values):
            raise TypeError(f"{name} is needed, not {type(value).__name__}")
        dumped: dict[str, Any] = {}
        for own_name, wire_name, field, convert in dumps:
            if field.may_be_absent and own_name not in value:
                continue
            item = get(value, own_name)
            if item is None and field.default is None and as_json:
                continue  # a reader gets the default, which is null
            dumped[wire_name] = item if convert is None else convert(item)
        return dumped

    def load(data: Any) -> Any:  # noqa: ANN401 - of JSON, where it may be anything
        if not isinstance(data, dict):
            raise TypeError(f"{name} is a JSON object, not {type(cast('object', data)).__name__}")
        given, loaded = cast("dict[str, Any]", data), dict[str, Any]()
        for wire_name, own_name, field, convert in loads:
            item = given.get(wire_name, _NOTHING)
            if item is _NOTHING:
                if field.may_be_absent or field.default is not None:
                    continue  # the class has the default, or says what is missing
                item = None
            if item is None and field.may_be_absent:
                continue
            loaded[own_name] = item if convert is None else convert(item)
        return make(loaded)

    return Codec(dump, load)


# The kinds of classes.


def _shape_of(hint: Any) -> _Shape | None:  # noqa: ANN401 - anything
    if not isinstance(hint, type) and not typing.is_typeddict(hint):
        return None
    kind: Any = hint
    if typing.is_typeddict(kind):
        return _shape_of_typed_dict(kind)
    hints = _hints_of(kind)
    if hasattr(kind, "model_validate") and hasattr(kind, "model_fields"):
        return _shape_of_pydantic(kind)
    if dataclasses.is_dataclass(kind):
        fields = [
            _FieldOf(one.name, one.name, hints[one.name], _dataclass_default(one))
            for one in dataclasses.fields(kind)
            if one.init
        ]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = kind._field_defaults
        fields = [_FieldOf(one, one, hints[one], defaults.get(one, _NOTHING)) for one in kind._fields]
    elif hasattr(kind, "__attrs_attrs__"):
        return _shape_of_attrs(kind, hints)
    elif hasattr(kind, "__struct_fields__"):
        fields = _fields_of_msgspec(kind, hints)
    else:
        return None
    return _Shape(fields, lambda values: kind(**values), getattr)


def _hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as fault:
        raise InvalidArgument(f"a type hint of {_name_of(kind)} is not known: {fault}") from fault


def _dataclass_default(field: "dataclasses.Field[Any]") -> Any:  # noqa: ANN401 - a user's
    if field.default is not dataclasses.MISSING:
        return field.default
    return _NOTHING if field.default_factory is dataclasses.MISSING else field.default_factory()


def _shape_of_typed_dict(kind: Any) -> _Shape:  # noqa: ANN401 - a TypedDict
    fields: list[_FieldOf] = []
    for name, hint in _hints_of(kind).items():
        is_absent = name not in kind.__required_keys__
        marker = _name_of(get_origin(hint))
        if marker in {"NotRequired", "Required", "ReadOnly"}:
            is_absent = marker == "NotRequired" or (marker == "ReadOnly" and is_absent)
            (hint,) = get_args(hint)  # noqa: PLW2901 - without the marker
        fields.append(_FieldOf(name, name, hint, may_be_absent=is_absent))
    return _Shape(fields, lambda values: values, lambda record, name: record[name])


def _shape_of_pydantic(kind: Any) -> _Shape:  # noqa: ANN401 - a model
    def name_of(name: str, info: Any) -> str:  # noqa: ANN401 - of pydantic
        return str(info.serialization_alias or info.alias or name)

    fields: list[_FieldOf] = []
    hints = _hints_of(kind)
    for name, info in kind.model_fields.items():
        default = _NOTHING if info.is_required() else info.get_default(call_default_factory=True)
        fields.append(_FieldOf(name, name_of(name, info), hints[name], default))
    aliases = {
        name: info.validation_alias if isinstance(info.validation_alias, str) else info.alias or name
        for name, info in kind.model_fields.items()
    }

    def make(values: dict[str, Any]) -> Any:  # noqa: ANN401 - a model
        return kind.model_validate({aliases[name]: value for name, value in values.items()})

    return _Shape(fields, make, getattr)


def _shape_of_attrs(kind: Any, hints: dict[str, Any]) -> _Shape:  # noqa: ANN401 - a class of attrs
    fields: list[_FieldOf] = []
    arguments: dict[str, str] = {}
    for one in kind.__attrs_attrs__:
        if not one.init:
            continue
        default = one.default
        factory = getattr(default, "factory", None)
        if factory is not None:
            default = _NOTHING if default.takes_self else factory()
        elif _name_of(type(default)) == "_Nothing":
            default = _NOTHING
        fields.append(_FieldOf(one.name, one.name, hints[one.name], default))
        arguments[one.name] = getattr(one, "alias", None) or one.name.lstrip("_")
    return _Shape(fields, lambda values: kind(**{arguments[name]: value for name, value in values.items()}), getattr)


def _fields_of_msgspec(kind: Any, hints: dict[str, Any]) -> list[_FieldOf]:  # noqa: ANN401 - a Struct
    names, defaults = kind.__struct_fields__, list(kind.__struct_defaults__)
    defaults = [_NOTHING] * (len(names) - len(defaults)) + defaults
    fields: list[_FieldOf] = []
    for name, wire_name, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
        factory = getattr(default, "factory", None)
        is_missing = default is _NOTHING or _name_of(type(default)) == "NoDefaultType"
        value = _NOTHING if is_missing else default if factory is None else factory()
        fields.append(_FieldOf(name, wire_name, hints[name], value))
    return fields


# Small conversions.


def _name_of(one: object) -> str:
    return str(getattr(one, "__name__", None) or getattr(one, "_name", None) or one)


def _optional(codec: Codec) -> Codec:
    dump, load = codec
    return Codec(
        None if dump is None else lambda value: None if value is None else dump(value),
        None if load is None else lambda value: None if value is None else load(value),
    )


def _checked(dump: Callable[[Any], Any] | None, values: Any, where: str) -> Callable[[Any], Any]:  # noqa: ANN401
    """Convert a value after a look at its class."""
    accepted = (float, int) if values is float else values

    def convert(value: Any) -> Any:  # noqa: ANN401 - a user's
        if not isinstance(value, accepted) or (type(value) is bool and values is not bool):
            expected = _name_of(values) if isinstance(values, type) else "a sequence"
            raise TypeError(f"{where} takes {expected}, not {type(value).__name__}")
        if values is float:
            return float(value)
        return value if dump is None else dump(value)

    return convert


def _whole(bits: int, where: str) -> Callable[[Any], Any]:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:  # noqa: ANN401 - a user's
        if not isinstance(value, int) or type(value) is bool:
            raise TypeError(f"{where} takes int, not {type(value).__name__}")
        if not -limit <= value < limit:
            raise ValueError(f"{where} takes an int of {bits} bits, not {value}")
        return value

    return convert


def _loaded(
    load: Callable[[Any], Any] | None, make: Callable[[Any], Any] | None, wire: type, where: str
) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:  # noqa: ANN401 - of the wire
        if not isinstance(value, wire):
            raise TypeError(f"{where} takes {wire.__name__}, not {type(value).__name__}")
        items: Any = cast("Any", value) if load is None else load(value)
        return items if make is None or make is list else make(items)

    return convert


def _one_of(symbols: Iterable[str], where: str) -> Callable[[Any], Any]:
    allowed = frozenset(symbols)

    def convert(value: Any) -> str:  # noqa: ANN401 - a user's
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{where} takes one of {', '.join(sorted(allowed))}, not {value!r}")
        return value

    return convert


def _aware(value: Any) -> datetime:  # noqa: ANN401 - a user's
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("a datetime needs a time zone: a point in time has one")
    return value


def _is_value_of(node: _Node, value: object) -> bool:
    if type(value) is bool and node.values is not bool:
        return False
    return isinstance(value, node.values)


_PRIMITIVES: Final[dict[Any, tuple[str, str]]] = {
    int: ("long", "int"),
    float: ("double", "float"),
    str: ("string", "string"),
    bytes: ("bytes", "bytes"),
    bool: ("boolean", "bool"),
    None: ("null", "null"),
    type(None): ("null", "null"),
}
_FIELD_NAMES: Final = {"int": "Integer", "float": "Float"}
_TEXTS: Final[dict[Any, tuple[AvroType, Callable[[Any], Any]]]] = {
    datetime: ({"type": "long", "logicalType": "timestamp-micros"}, datetime.fromisoformat),
    date: ({"type": "int", "logicalType": "date"}, date.fromisoformat),
    time: ({"type": "long", "logicalType": "time-micros"}, time.fromisoformat),
    UUID: ({"type": "string", "logicalType": "uuid"}, UUID),
}
_CONTAINERS: Final[dict[Any, Callable[[Any], Any]]] = {
    list: list, Sequence: list, set: set, frozenset: frozenset, tuple: tuple,
}  # fmt: skip
_WIRES: Final[dict[type, str]] = {
    type(None): "null", bool: "bool", int: "int", float: "float", str: "string", list: "array", dict: "object",
}  # fmt: skip
