"""Records and their fields: a class that defines a schema, as in the official client.

    class Order(Record):
        item = String(required=True)
        count = Integer(default=1)

The Avro schema of a record is that of the official client, so both share one version in the registry. A field is
`["null", T]` unless it is required; its default is in the schema only with `required_default`. Where a record or an
enum is used a second time, only its name stands.

Different from the official client:

- `Array(CustomEnum(E))` and `Map(CustomEnum(E))` have the definition of the enum; there it is only the word "enum".
- Each record has its own copy of a sub-record that was not given, and of a default list or dict; there all records
  share one.
- `Bytes` refuses what is neither bytes nor text; there it is found out when the message is sent, or not at all.
- Dicts become sub-records at any depth; there only directly in a field, an array or a map.
- Enums of JSON are read by name and by value; there a text that is the value only is refused.
"""

import copy
from base64 import b64decode, b64encode
from collections.abc import Sequence
from enum import Enum, EnumMeta
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, cast

from pulsar_actors.exceptions import InvalidArgument, InvalidMessage
from pulsar_actors.schema.codec import SAME, AvroType, Codec, float_of_json, in_list, in_map, items_of

__all__ = [
    "Array",
    "Boolean",
    "Bytes",
    "CustomEnum",
    "Double",
    "Field",
    "Float",
    "Integer",
    "Long",
    "Map",
    "Null",
    "Record",
    "RecordMeta",
    "String",
    "check_names",
    "record_codec",
]

_RESERVED: Final = frozenset({"_default", "_required", "_required_default"})


class RecordMeta(type):
    """The class of records: it collects the fields that a record's class body declares."""

    def __new__(metacls, name: str, parents: tuple[type, ...], dct: dict[str, Any]) -> "RecordMeta":
        """Collect the fields. A class of an Enum or of a Record stands for a field of it."""
        declared = dct if parents else {}  # the base of records has none
        dct["_fields"] = {key: field for key, value in declared.items() if (field := _field_of(value)) is not None}
        return super().__new__(metacls, name, parents, dct)


def _field_of(value: object) -> "Field | Record | None":
    if isinstance(value, EnumMeta):
        return CustomEnum(cast("type[Enum]", value))
    if isinstance(value, RecordMeta):
        return cast("Record", value())
    return value if isinstance(value, (Field, Record)) else None


class Record(metaclass=RecordMeta):
    """The base of records. Values are checked when they are assigned.

    `_avro_namespace` is the namespace of the schema. With `_sorted_fields`, its fields are sorted by name, as Java
    sorts them.
    """

    _avro_namespace: ClassVar[str | None] = None
    _sorted_fields: ClassVar[bool] = False
    _fields: ClassVar[dict[str, Any]]
    _default: object = None
    _required: bool = False
    _required_default: bool = False

    def __init__(
        self,
        default: object = None,
        required_default: bool = False,
        required: bool = False,
        *args: object,  # noqa: ARG002 - the official client takes and ignores them
        **kwargs: object,
    ) -> None:
        """Set the fields. As a field of another record, an instance has the options of a field."""
        self._default = default
        self._required_default = required_default
        self._required = required
        set_value = super().__setattr__
        for name, field in self._fields.items():
            if name in kwargs:
                set_value(name, field.validate_type(name, _with_records(field, kwargs[name])))
            elif isinstance(field, Record):
                set_value(name, copy.deepcopy(field))
            else:
                set_value(name, field.default())

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _RESERVED:
            field = self._fields.get(name)
            if field is None:
                raise AttributeError(f"Cannot set undeclared field {name} on record")
            value = field.validate_type(name, value)
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    __hash__ = None  # type: ignore[assignment] # its fields change

    def __str__(self) -> str:
        return str({name: getattr(self, name) for name in self._fields})

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    @classmethod
    def schema(cls) -> AvroType:
        """Return the Avro schema."""
        return cls.schema_info(set())

    @classmethod
    def schema_info(cls, defined_names: set[str]) -> AvroType:
        """Return the Avro schema, or its name if it is defined already."""
        namespace = cls._avro_namespace
        full_name = cls.__name__ if namespace is None else f"{namespace}.{cls.__name__}"
        if full_name in defined_names:
            return full_name
        defined_names.add(full_name)
        names = sorted(cls._fields) if cls._sorted_fields else list(cls._fields)
        schema: dict[str, Any] = {"type": "record", "name": cls.__name__}
        if namespace is not None:
            schema["namespace"] = namespace
        schema["fields"] = [_field_schema(name, cls._fields[name], defined_names) for name in names]
        return schema

    def type(self) -> str:
        """Return the name of the class."""
        return type(self).__name__

    def python_type(self) -> Any:  # noqa: ANN401 - a class; `type` is a method here
        """Return the class of the values."""
        return type(self)

    def validate_type(self, name: str, val: object) -> object:
        """Check the value of a field of this record's class."""
        if val is None and not self._required:
            return self.default()
        if not isinstance(val, type(self)):
            raise TypeError(
                f"Invalid type '{type(val)}' for sub-record field '{name}'. Expected: {type(self).__name__}"
            )
        return val

    def default(self) -> object:
        """Return the default of a field of this record's class."""
        return self._default

    def required_default(self) -> bool:
        """Return whether the default is written into the schema."""
        return self._required_default


def _field_schema(name: str, field: Any, defined_names: set[str]) -> dict[str, Any]:  # noqa: ANN401 - Field or Record
    kind = field.schema_info(defined_names)
    schema: dict[str, Any] = {"name": name}
    if field.required_default():  # before the type, so that the text is the official client's
        schema["default"] = _written_default(field.default())
    schema["type"] = kind if field._required else ["null", kind]  # noqa: SLF001 - our own classes
    return schema


def _written_default(default: object) -> object:
    """Write a default as Avro wants it in JSON."""
    match default:
        case Enum():
            return default.name
        case bytes():
            return default.decode("latin-1")
        case list():
            return [_written_default(one) for one in items_of(default)]
        case dict():
            values = cast("dict[str, object]", default)
            return {key: _written_default(value) for key, value in values.items()}
        case Record():
            names = default._fields  # pyright: ignore[reportPrivateUsage]
            return {name: _written_default(getattr(default, name)) for name in names}
        case _:
            return default


def check_names(kind: Any, named: dict[str, Any]) -> None:  # noqa: ANN401 - a class of records, or an Enum
    """Refuse two types of one name in a record: where the second is used, the definition would have the first."""
    space = getattr(kind, "_avro_namespace", None)
    name = f"{space}.{kind.__name__}" if space else kind.__name__
    if named.setdefault(name, kind) is not kind:
        raise InvalidArgument(f"two types of this schema have the name {name}")
    for field in getattr(kind, "_fields", {}).values():
        inner = _named_type(field)
        if inner is not None and inner not in named.values():
            check_names(inner, named)


def _named_type(field: object) -> Any:  # noqa: ANN401 - a class
    match field:
        case Array(array_type=inner) | Map(value_type=inner):
            return _named_type(inner)
        case Record():
            return type(field)
        case CustomEnum():
            return field.enum_type
        case _:
            return None


def _with_records(field: object, value: Any) -> Any:  # noqa: ANN401 - a user's
    """Make records of the dicts in a value."""
    match field:
        case Record() if isinstance(value, dict):
            return type(field)(**cast("dict[str, Any]", value))
        case Array(array_type=items) if isinstance(value, list) and _has_records(items):
            return [_with_records(items, one) for one in items_of(value)]
        case Map(value_type=values) if isinstance(value, dict) and _has_records(values):
            return dict(
                zip(
                    cast("Any", value),
                    [_with_records(values, one) for one in items_of(cast("Any", value).values())],
                    strict=True,
                )
            )
        case _:
            return cast("Any", value)


def _has_records(field: object) -> bool:
    match field:
        case Array(array_type=inner) | Map(value_type=inner):
            return _has_records(inner)
        case _:
            return isinstance(field, Record)


class Field:
    """The base of fields: a type, a default, and whether a value is required."""

    _type: ClassVar[str] = ""
    _python_type: ClassVar[Any] = object

    def __init__(self, default: object = None, required: bool = False, required_default: bool = False) -> None:
        self._required = required
        self._required_default = required_default
        self._default: object = None
        if default is not None:
            self._default = self.validate_type("default", default)

    def type(self) -> str:
        """Return the name of the Avro type."""
        return self._type

    def python_type(self) -> Any:  # noqa: ANN401 - a class or several
        """Return the class of the values, or a tuple of classes."""
        return self._python_type

    def validate_type(self, name: str, val: object) -> object:
        """Check a value; None stands for the default of a field that is not required."""
        if val is None and not self._required:
            return self.default()
        if not isinstance(val, self.python_type()):
            expected = _name_of(self.python_type())
            raise TypeError(f"Invalid type '{type(val)}' for field '{name}'. Expected: {expected}")
        return val

    def schema(self) -> AvroType:
        """Return the Avro schema."""
        return self.schema_info(set())

    def schema_info(self, defined_names: set[str]) -> AvroType:  # noqa: ARG002 - only named types use it
        """Return the Avro schema, or its name if it is defined already."""
        return self.type()

    def default(self) -> Any:  # noqa: ANN401 - of the field's type
        """Return the default."""
        return self._default

    def required_default(self) -> bool:
        """Return whether the default is written into the schema."""
        return self._required_default


def _name_of(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


class Null(Field):
    """A field that is always None."""

    _type = "null"
    _python_type = type(None)

    def validate_type(self, name: str, val: object) -> object:
        """Take None only."""
        if val is not None:
            raise TypeError(f"Field {name} is set to be None")
        return val


class Boolean(Field):
    """True or False; False by default."""

    _type = "boolean"
    _python_type = bool

    def default(self) -> bool:
        """Return the default."""
        return bool(self._default)


class _WholeNumber(Field):
    """An int that fits in a number of bits."""

    _python_type = int
    _bits: ClassVar[int]

    def validate_type(self, name: str, val: object) -> object:
        """Take an int within the limits of the type: no reader could take another."""
        value = super().validate_type(name, val)
        if isinstance(value, int) and not -(1 << self._bits - 1) <= value < 1 << self._bits - 1:
            raise InvalidArgument(f"field {name} takes an int of {self._bits} bits, not {value}")
        return value


class Integer(_WholeNumber):
    """An int of 32 bits."""

    _type = "int"
    _bits = 32


class Long(_WholeNumber):
    """An int of 64 bits."""

    _type = "long"
    _bits = 64


class Float(Field):
    """A float of 32 bits; an int is taken, too."""

    _type = "float"
    _python_type = (float, int)


class Double(Field):
    """A float of 64 bits; an int is taken, too."""

    _type = "double"
    _python_type = (float, int)


class Bytes(Field):
    """Bytes; text is encoded as UTF-8."""

    _type = "bytes"
    _python_type = (bytes, str)

    def validate_type(self, name: str, val: object) -> object:
        """Take bytes or text."""
        value = super().validate_type(name, val)
        return value.encode() if isinstance(value, str) else value


class String(Field):
    """Text; bytes are decoded as UTF-8."""

    _type = "string"
    _python_type = (str, bytes)

    def validate_type(self, name: str, val: object) -> object:
        """Take text or bytes."""
        if val is None and not self._required:
            return self.default()
        if not isinstance(val, (str, bytes)):
            raise TypeError(f"Invalid type '{type(val)}' for field '{name}'. Expected a string")
        return val.decode() if isinstance(val, bytes) else val


class CustomEnum(Field):
    """A member of an Enum. It may be given by its name, or by its value if that is an int."""

    _type = "enum"

    def __init__(
        self,
        enum_type: type[Enum],
        default: object = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        if not (isinstance(enum_type, EnumMeta) and issubclass(enum_type, Enum)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"{_name_of(enum_type)} is not a valid Enum type")
        self.enum_type = enum_type
        self.values = {member.value: member for member in enum_type.__members__.values() if _is_hashable(member.value)}
        super().__init__(default, required, required_default)

    def python_type(self) -> type[Enum]:
        """Return the Enum."""
        return self.enum_type

    def validate_type(self, name: str, val: object) -> object:
        """Take a member, its name, or its value; None is taken, too."""
        if val is None or isinstance(val, self.enum_type):
            return val
        if isinstance(val, str):
            found = self.enum_type.__members__.get(val) or self.values.get(val)
            expected: object = list(self.enum_type.__members__)
        elif isinstance(val, int) and type(val) is not bool:
            found, expected = self.values.get(val), list(self.values)
        else:
            raise TypeError(f"Invalid type '{type(val)}' for field '{name}'. Expected: {self.enum_type.__name__}")
        if found is None:
            raise TypeError(f"Invalid enum value '{val}' for field '{name}'. Expected: {expected}")
        return found

    def schema_info(self, defined_names: set[str]) -> AvroType:
        """Return the Avro schema, or its name if it is defined already."""
        name = self.enum_type.__name__
        if name in defined_names:
            return name
        defined_names.add(name)
        return {"type": "enum", "name": name, "symbols": [member.name for member in self.enum_type]}


def _is_hashable(value: object) -> bool:
    return type(value).__hash__ is not None


class _Container(Field):
    """An array or a map."""

    def default(self) -> Any:  # noqa: ANN401 - a list or a dict
        """Return a copy of the default: records do not share it."""
        return copy.deepcopy(self._default)

    def validate_type(self, name: str, val: object) -> object:
        """Check the container and its items; None is taken, too."""
        if val is None:
            return None
        super().validate_type(name, val)
        return self._checked(name, cast("Any", val))

    def _checked(self, name: str, val: Any) -> object:  # noqa: ANN401 - a container
        raise NotImplementedError


def _check_item_type(item: object) -> Any:  # noqa: ANN401 - Field or Record
    """Return the field of an item. A class of records stands for an instance."""
    if isinstance(item, RecordMeta):
        return item()
    if not isinstance(item, (Record, Field)):
        raise InvalidArgument(f"Argument {_name_of(item)} is not a Record or a Field")
    return item


def _fits(field: Any, value: object) -> bool:  # noqa: ANN401 - Field or Record
    return isinstance(value, field.python_type())


class Array(_Container):
    """A list of items of one type."""

    _type = "array"
    _python_type = list

    def __init__(
        self, array_type: object, default: object = None, required: bool = False, required_default: bool = False
    ) -> None:
        self.array_type = _check_item_type(array_type)
        super().__init__(default, required, required_default)

    def schema_info(self, defined_names: set[str]) -> AvroType:
        """Return the Avro schema."""
        return {"type": "array", "items": self.array_type.schema_info(defined_names)}

    def _checked(self, name: str, val: Sequence[object]) -> object:
        if not all(_fits(self.array_type, one) for one in val):
            raise TypeError(f"Array field {name} items should all be of type {self.array_type.type()}")
        return val


class Map(_Container):
    """A dict from text to values of one type."""

    _type = "map"
    _python_type = dict

    def __init__(
        self, value_type: object, default: object = None, required: bool = False, required_default: bool = False
    ) -> None:
        self.value_type = _check_item_type(value_type)
        super().__init__(default, required, required_default)

    def schema_info(self, defined_names: set[str]) -> AvroType:
        """Return the Avro schema."""
        return {"type": "map", "values": self.value_type.schema_info(defined_names)}

    def _checked(self, name: str, val: dict[object, object]) -> object:
        if not all(isinstance(key, str) for key in val):
            raise TypeError(f"Map keys for field {name} should all be strings")
        if not all(_fits(self.value_type, one) for one in val.values()):
            raise TypeError(
                f"Map values for field {name} should all be of type {_name_of(self.value_type.python_type())}"
            )
        return val


_EXACT: Final[dict[object, type]] = {
    Boolean: bool,
    Integer: int,
    Long: int,
    Float: float,
    Double: float,
    String: str,
    Bytes: bytes,
}
"""The class whose values a field takes as they are, without a call."""


def record_codec(  # noqa: C901 - four functions of one table
    record_class: type[Record], *, as_json: bool, java_style: bool = False
) -> Codec:
    """Make the codec of a class of records, for JSON or for Avro."""
    columns = [
        (name, field, _field_codec(field, as_json=as_json, java_style=java_style))
        for name, field in record_class._fields.items()  # pyright: ignore[reportPrivateUsage]
    ]
    dumps = [(name, field, codec.dump) for name, field, codec in columns]
    loads = [(name, codec.load) for name, _, codec in columns if codec.load is not None]
    json_loads = [(name, field, codec.load, _EXACT.get(cast("object", type(field)))) for name, field, codec in columns]
    is_plain = record_class.__init__ is Record.__init__
    defaults = [(name, field) for name, field, _ in columns if field.default() is not None]

    def dump(record: Record) -> dict[str, Any]:
        values, dumped = record.__dict__, dict[str, Any]()
        for name, field, convert in dumps:
            value = values[name]
            if value is None:
                if field._required and type(field) is not Null:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                    raise TypeError(f"{record_class.__name__}.{name} is required, and is None")
                if java_style:
                    continue
            elif convert is not None:
                value = convert(value)
            dumped[name] = value
        return dumped

    def load_json(data: object) -> Record:
        if not isinstance(data, dict):
            raise TypeError(f"{record_class.__name__} is a JSON object")
        given, values = cast("dict[str, Any]", data), dict[str, Any]()
        for name, field, convert, exact in json_loads:
            if name in given:
                value = given[name]
                if convert is not None and value is not None:
                    value = convert(value)
                values[name] = value if type(value) is exact else field.validate_type(name, value)
            elif not is_plain:
                continue
            else:
                values[name] = copy.deepcopy(field) if isinstance(field, Record) else field.default()
        if not is_plain:
            return record_class(**values)
        record = object.__new__(record_class)
        vars(record).update(values)
        return record

    def load_avro(values: dict[str, Any]) -> Record:
        """Read what fastavro has checked. As on assignment, null stands for the default."""
        for name, convert in loads:
            if values[name] is not None:
                values[name] = convert(values[name])
        if not is_plain:
            return record_class(**values)
        for name, field in defaults:
            if values[name] is None:
                values[name] = field.default()
        record = object.__new__(record_class)
        vars(record).update(values)
        return record

    return Codec(dump, load_json if as_json else load_avro)


def _field_codec(field: object, *, as_json: bool, java_style: bool) -> Codec:  # noqa: PLR0911 - a line for each type
    match field:
        case Record():
            return record_codec(type(field), as_json=as_json, java_style=java_style)
        case Array(array_type=inner):
            codec = _field_codec(inner, as_json=as_json, java_style=java_style)
            return Codec(in_list(codec.dump), in_list(codec.load))
        case Map(value_type=inner):
            codec = _field_codec(inner, as_json=as_json, java_style=java_style)
            return Codec(in_map(codec.dump), in_map(codec.load))
        case CustomEnum():
            load = partial(field.validate_type, field.enum_type.__name__)
            return Codec(attrgetter("value" if as_json and not java_style else "name"), load)
        case Float() | Double() if as_json and java_style:
            return Codec(None, float_of_json)
        case Bytes() if as_json:
            return Codec(_base64_text, b64decode) if java_style else Codec(_text_of_bytes, str.encode)
        case _:
            return SAME


def _base64_text(data: bytes) -> str:
    return b64encode(data).decode()


def _text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidMessage(
            "in JSON, Bytes are UTF-8 text, as in the official client: use JsonSchema(…, java_style=True) for base 64"
        ) from None
