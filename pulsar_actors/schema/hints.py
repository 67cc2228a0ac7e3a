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
| `datetime` (aware), `date` (no datetime), `time`, `UUID` | timestamp-micros, date, time-micros (no zone), uuid |
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

import re
import types
import typing
from base64 import b64decode, b64encode
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, EnumMeta, Flag
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.schema.codec import SAME, AvroType, Codec, RecordType, float_of_json, in_list, in_map
from pulsar_actors.schema.definition import RecordMeta, record_codec
from pulsar_actors.schema.record_fields import NOTHING, RecordField, RecordFields, fields_of, is_pydantic, name_of

__all__ = ["hinted_record_type"]


class _Node(NamedTuple):
    """One type: its Avro schema, its codec, the Python class of its values, and the kind of what is written."""

    avro: Any
    codec: Codec
    values: Any
    wire: str
    record_name: str = ""


def hinted_record_type(record_cls: Any, *, as_json: bool) -> RecordType:  # noqa: ANN401 - a type, or a hint
    """Return the schema and the codec of a class. Raise InvalidArgument if it has none."""
    builder = _Builder(as_json=as_json)
    try:
        node = builder.node(record_cls, name_of(record_cls))
    except RecursionError as fault:
        raise InvalidArgument(f"the type hints of {name_of(record_cls)} go on without an end") from fault
    if not node.record_name:
        raise InvalidArgument(f"a schema of records takes a class of records, not {record_cls!r}")
    codec = node.codec
    if as_json and is_pydantic(record_cls):
        codec = Codec(lambda model: model.model_dump_json(by_alias=True), record_cls.model_validate_json)
    return RecordType(node.avro, codec, node.values, builder.has_unions_of_records)


class _Builder:
    """Builds the nodes of one schema. A named type is defined once; after that its name stands."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._named: dict[Any, tuple[str, Codec]] = {}
        self._names: dict[str, Any] = {}
        self._namespace = ""  # of the record around
        self._is_within_pydantic = False
        self.has_unions_of_records = False

    def node(self, hint: Any, where: str) -> _Node:  # noqa: ANN401, C901, PLR0911 - a hint; a line for each kind
        """Return the node of a hint; `where` is for errors."""
        extras: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *rest = get_args(hint)
            extras = tuple(rest)
        while (renamed := _renamed(hint)) is not None:
            hint = renamed
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Final:
            return self.node(arguments[0], where)
        if hint in _PRIMITIVES:
            return self._primitive(hint, extras, where)
        if hint is Decimal:
            return self._decimal(extras, where)
        if hint in _TEXTS:
            return self._text(hint, where)
        if origin in {Union, getattr(types, "UnionType", Union)}:
            return self._union([self.node(one, where) for one in arguments], where)
        if origin is Literal:
            return self._literal(arguments, where)
        if isinstance(hint, EnumMeta):
            return self._enum(cast("type[Enum]", hint), where)
        container = origin or hint
        if container in _CONTAINERS:
            return self._container(_CONTAINERS[container], arguments, where)
        if container in _MAPS:
            return self._map(arguments, where)
        return self._record(hint, where)

    # Values.

    def _primitive(self, hint: Any, extras: tuple[Any, ...], where: str) -> _Node:  # noqa: ANN401
        avro, wire = _PRIMITIVES[hint]
        narrow = {int: "int", float: "float"}.get(hint)
        if narrow is not None and (narrow in extras or _FIELD_NAMES[narrow] in {name_of(one) for one in extras}):
            avro = narrow
        if hint is bytes and self._as_json:
            dump = lambda value: b64encode(value).decode()  # noqa: E731 - a table's row
            return _Node(avro, Codec(_checked(dump, bytes, where), b64decode), bytes, "string")
        check = _whole(32 if avro == "int" else 64, where) if hint is int else _checked(None, hint, where)
        if hint is float and self._as_json:
            return _Node(avro, Codec(check, lambda value: check(float_of_json(value))), hint, wire)
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

    def _text(self, hint: Any, where: str) -> _Node:  # noqa: ANN401 - one of four classes
        avro, load = _TEXTS[hint]
        if self._as_json:
            dump = str if hint is UUID else _temporal(hint, where, as_json=True)
            return _Node("string", Codec(dump, load), hint, "string")
        return _Node(avro, Codec(None if hint is UUID else _temporal(hint, where, as_json=False)), hint, hint.__name__)

    def _literal(self, values: tuple[Any, ...], where: str) -> _Node:
        if None in values:
            others = tuple(one for one in values if one is not None)
            return self._union([self.node(None, where), self._literal(others, where)], where)
        check = _one_of(values, where)
        kinds = {type(one) for one in values}
        if kinds in ({int}, {bool}):
            return self._primitive(kinds.pop(), (), where)._replace(codec=Codec(check, check))
        if kinds != {str}:
            raise InvalidArgument(f"{where}: the values of a Literal are either text, or ints, or bools")
        if not all(one.isidentifier() for one in values):
            return _Node("string", Codec(check, check), str, "string")
        key = "Literal", values
        name = self._named_type(key, "_".join(values), "", where)
        self._named.setdefault(key, (name, Codec(check, check)))
        definition = {"type": "enum", "name": "_".join(values), "symbols": list(values)}
        return _Node(self._once(key, definition), Codec(check, check), str, "string")

    def _enum(self, hint: type[Enum], where: str) -> _Node:
        if issubclass(hint, Flag):
            raise InvalidArgument(f"{where}: flags are combined, and a symbol of an enum is one: use int")
        members = hint.__members__

        def load(value: Any) -> Enum:  # noqa: ANN401 - of JSON, where it may be anything
            if value not in members:
                raise ValueError(f"{hint.__name__} has no member {value!r}")
            return members[value]

        definition = {"type": "enum", "name": hint.__name__, "symbols": [one.name for one in hint]}
        codec = Codec(_checked(attrgetter("name"), hint, hint.__name__), load)
        self._named.setdefault(hint, (self._named_type(hint, hint.__name__, "", where), codec))
        return _Node(self._once(hint, definition), codec, hint, "string")

    def _by_pydantic(self, hint: Any, where: str) -> _Node:  # noqa: ANN401 - a type
        """Return the node of a type that only pydantic knows: a URL, an address, a path."""
        if hasattr(hint, "get_secret_value"):
            raise InvalidArgument(f"{where}: pydantic writes a secret as stars, so it would be lost")
        try:
            adapter = import_module("pydantic").TypeAdapter(hint)
            avro = _JSON_TYPES[adapter.json_schema(mode="serialization")["type"]]
        except Exception as fault:  # pydantic has many
            raise InvalidArgument(f"{where}: {name_of(hint)} is no type that a schema can have") from fault
        dump = partial(adapter.dump_python, mode="json")
        return _Node(avro, Codec(dump, adapter.validate_python), object, {"long": "int"}.get(avro, avro))

    # What holds values.

    def _container(self, make: Callable[[Any], Any], arguments: tuple[Any, ...], where: str) -> _Node:
        if not arguments:
            raise InvalidArgument(f"{where}: say of what, as list[str] does")
        if make is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):  # noqa: PLR2004
            raise InvalidArgument(f"{where}: an array has any length: use tuple[T, ...], or a NamedTuple")
        item = self.node(arguments[0], where)
        dump, load = in_list(item.codec.dump), in_list(item.codec.load)
        values: Any = AbstractSet if make in {set, frozenset} else make
        if make is list:
            values = list, tuple, set, frozenset
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
        has_datetimes = any(
            node.values is datetime for node in nodes
        )  # before dates, as which fastavro would take them
        nodes.sort(key=lambda node: (node.wire != "null", has_datetimes and node.values is date))
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
            name = self._named_type(hint, hint.__name__, getattr(hint, "_avro_namespace", None) or "", where)
            self._named.setdefault(hint, (name, codec))
            return _Node(self._once(hint, official.schema()), codec, hint, "object", name)
        found = fields_of(hint)
        if found is None:
            if self._is_within_pydantic and isinstance(hint, type):
                return self._by_pydantic(hint, where)
            what = "a type variable" if isinstance(hint, TypeVar) else "no type that a schema can have"
            raise InvalidArgument(f"{where}: {name_of(hint)} is {what}")
        kind = get_origin(hint) or hint
        values = Mapping if typing.is_typeddict(kind) else kind
        known = self._named.get(hint)
        if known is not None:
            return _Node(known[0], known[1], values, "object", known[0])
        later: list[Codec] = []  # a record may contain itself: its codec is complete when all its fields are

        def dump(value: Any) -> Any:  # noqa: ANN401 - a record
            return cast("Any", later[0].dump)(value)

        def load(value: Any) -> Any:  # noqa: ANN401 - from the wire
            return cast("Any", later[0].load)(value)

        name, namespace = _avro_name(hint), getattr(kind, "_avro_namespace", None)
        full_name = self._named_type(hint, name, namespace or "", where)
        self._named[hint] = full_name, Codec(dump, load)
        avro: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            avro["namespace"] = namespace
        around = self._namespace, self._is_within_pydantic
        self._namespace, self._is_within_pydantic = full_name.rpartition(".")[0], is_pydantic(kind)
        columns = [self._column(one, f"{name}.{one.name}") for one in found.fields]
        self._namespace, self._is_within_pydantic = around
        avro["fields"] = [definition for definition, _, _ in columns]
        codecs = [(field, codec) for _, field, codec in columns]
        later.append(_record_codec(name, codecs, found, values, as_json=self._as_json))
        return _Node(avro, later[0], values, "object", full_name)

    def _named_type(self, key: Any, name: str, namespace: str, where: str) -> str:  # noqa: ANN401 - a type
        """Return the full name of a type, which has to be the only one of this name."""
        if key in self._named:
            return self._named[key][0]
        space = namespace or self._namespace
        full_name = f"{space}.{name}" if space else name
        if self._names.setdefault(full_name, key) != key:
            raise InvalidArgument(f"{where}: two types of this schema have the name {full_name}")
        return full_name

    def _column(self, field: RecordField, where: str) -> tuple[dict[str, Any], RecordField, Codec]:
        node = self.node(field.hint, where)
        avro, codec = node.avro, node.codec
        is_optional = isinstance(avro, list) and "null" in avro
        default = field.default
        if field.may_be_absent and not is_optional:
            avro = ["null", *avro] if isinstance(avro, list) else ["null", avro]
            codec, is_optional = _optional(codec), True
        if default is NOTHING and is_optional:
            default = None
            field = field._replace(default=None)
        definition: dict[str, Any] = {"name": field.wire_name, "type": avro}
        written = NOTHING if default is NOTHING else self._default(default)
        if written is not NOTHING:
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
                return NOTHING

    def _once(self, key: Any, definition: AvroType) -> AvroType:  # noqa: ANN401 - a type
        """Return a definition the first time, and its name after that."""
        marker = ("defined", key)
        if marker in self._named:
            return self._named[key][0]
        self._named[marker] = ("", SAME)
        return definition


def _renamed(hint: Any) -> Any:  # noqa: ANN401 - a hint
    """Return what a NewType, or the name of a `type` statement, stands for; None for other hints."""
    if type(hint).__name__ == "TypeAliasType":
        return hint.__value__
    return getattr(hint, "__supertype__", None)


def _avro_name(kind: Any) -> str:  # noqa: ANN401 - a class
    """Return the name of a class; of a generic one, also those of its arguments."""
    arguments = "".join(f"_{name_of(one)}" for one in get_args(kind))
    name = f"{name_of(kind)}{arguments}"
    return name if name.isidentifier() else re.sub(r"\W+", "_", name).strip("_")


def _record_codec(  # noqa: C901 - with the functions of the codec
    name: str,
    columns: Sequence[tuple[RecordField, Codec]],
    shape: RecordFields,
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
            item = given.get(wire_name, NOTHING)
            if item is NOTHING:
                if field.may_be_absent or field.default is not None:
                    continue  # the class has the default, or says what is missing
                item = None
            if item is None and field.may_be_absent:
                continue
            loaded[own_name] = item if convert is None else convert(item)
        return make(loaded)

    return Codec(dump, load)


# Small conversions.


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
            expected = name_of(values) if isinstance(values, type) else "a sequence"
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


def _one_of(values: Sequence[Any], where: str) -> Callable[[Any], Any]:
    allowed = {(type(one), one) for one in values}

    def convert(value: Any) -> Any:  # noqa: ANN401 - a user's
        if value.__hash__ is None or (type(value), value) not in allowed:
            raise ValueError(f"{where} takes one of {', '.join(map(str, values))}, not {value!r}")
        return value

    return convert


def _temporal(kind: Any, where: str, *, as_json: bool) -> Callable[[Any], Any]:  # noqa: ANN401 - one of three classes
    """Take a datetime, a date or a time, if all of it can be written: Avro's date has no time, its time no zone."""

    def convert(value: Any) -> Any:  # noqa: ANN401 - a user's
        if not _is_of(kind, value):
            raise TypeError(f"{where} takes {kind.__name__}, not {type(value).__name__}")
        if kind is datetime and value.tzinfo is None:
            raise ValueError("a datetime needs a time zone: a point in time has one")
        if kind is time and value.tzinfo is not None and not as_json:
            raise ValueError(f"{where} takes a time without a zone: Avro has none for it")
        return value.isoformat() if as_json else value

    return convert


def _is_value_of(node: _Node, value: object) -> bool:
    return _is_of(node.values, value)


def _is_of(values: Any, value: object) -> bool:  # noqa: ANN401 - a class, or several
    """Return whether a value is one of a class. A bool is no int, and a datetime is no date."""
    if (type(value) is bool and values is not bool) or (values is date and isinstance(value, datetime)):
        return False
    return isinstance(value, values)


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
    list: list, Sequence: list, MutableSequence: list, Collection: list, Iterable: list,
    set: set, AbstractSet: set, MutableSet: set, frozenset: frozenset, tuple: tuple,
}  # fmt: skip
_MAPS: Final = {dict, Mapping, MutableMapping}
_JSON_TYPES: Final = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean"}
_WIRES: Final[dict[type, str]] = {
    type(None): "null", bool: "bool", int: "int", float: "float", str: "string", list: "array", dict: "object",
}  # fmt: skip
