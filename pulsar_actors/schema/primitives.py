"""The schemas of Pulsar's primitive types, as Java and Go have them. Their definitions are empty.

Numbers are big-endian. A date is a number of days, a time a number of nanoseconds of the day, and a timestamp a number
of milliseconds since 1970, in UTC. Python's times have microseconds: finer parts are cut off when they are read, and
numbers outside of Python's years raise UndecodableMessage.
"""

import struct
from abc import abstractmethod
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, ClassVar, Final

from pulsar_actors.client.schema import BYTES, ReceivedMessage, Schema, SchemaInfo, SchemaType, StringSchema
from pulsar_actors.exceptions import WrongContent
from pulsar_actors.schema.record_types import encoded, undecodable

__all__ = [
    "PRIMITIVES",
    "BooleanSchema",
    "DateSchema",
    "DoubleSchema",
    "FloatSchema",
    "InstantSchema",
    "Int8Schema",
    "Int16Schema",
    "Int32Schema",
    "Int64Schema",
    "LocalDateSchema",
    "LocalDateTimeSchema",
    "LocalTimeSchema",
    "TimeSchema",
    "TimestampSchema",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND_NS: Final = 1_000_000_000
_DAY_NS: Final = 86_400 * _SECOND_NS


class _Primitive(Schema):
    """A type of a fixed size. `struct` packs the numbers that a value is made of."""

    _struct: ClassVar[struct.Struct]
    _python_type: ClassVar[Any]

    def __init__(self) -> None:
        """Keep the class's own definition."""

    def encode(self, value: object) -> bytes:
        """Encode a value of the type."""
        if not isinstance(value, self._python_type) or (type(value) is bool and self._python_type is not bool):
            expected = getattr(self._python_type, "__name__", "float")
            raise WrongContent(f"{self!r} takes {expected}, not {type(value).__name__}")
        try:
            return self._struct.pack(*self._numbers(value))
        except (struct.error, OverflowError, ValueError) as fault:
            raise encoded(self, fault) from fault

    def decode(self, data: bytes) -> object:
        """Decode a payload, whose size has to be that of the type."""
        try:
            return self._value(*self._struct.unpack(data))
        except (struct.error, OverflowError, ValueError) as fault:
            raise undecodable(self, fault) from fault

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return (value,)

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return numbers[0]


class _Number(_Primitive):
    """A type whose value is what `struct` unpacks."""

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the value of a message; None for a null value."""
        if type(self).decode is not _Primitive.decode:
            return super().decode_message(message)
        try:
            return self._struct.unpack(message.data())[0]  # saves three calls
        except struct.error:
            return super().decode_message(message)


class BooleanSchema(_Number):
    """A bool, in one byte."""

    _schema_info = SchemaInfo(SchemaType.BOOLEAN, "Boolean")
    _struct = struct.Struct(">?")
    _python_type = bool


class Int8Schema(_Number):
    """An int of 8 bits."""

    _schema_info = SchemaInfo(SchemaType.INT8, "INT8")
    _struct = struct.Struct(">b")
    _python_type = int


class Int16Schema(_Number):
    """An int of 16 bits."""

    _schema_info = SchemaInfo(SchemaType.INT16, "INT16")
    _struct = struct.Struct(">h")
    _python_type = int


class Int32Schema(_Number):
    """An int of 32 bits."""

    _schema_info = SchemaInfo(SchemaType.INT32, "INT32")
    _struct = struct.Struct(">i")
    _python_type = int


class Int64Schema(_Number):
    """An int of 64 bits."""

    _schema_info = SchemaInfo(SchemaType.INT64, "INT64")
    _struct = struct.Struct(">q")
    _python_type = int


class FloatSchema(_Number):
    """A float of 32 bits."""

    _schema_info = SchemaInfo(SchemaType.FLOAT, "Float")
    _struct = struct.Struct(">f")
    _python_type = (float, int)


class DoubleSchema(_Number):
    """A float of 64 bits."""

    _schema_info = SchemaInfo(SchemaType.DOUBLE, "Double")
    _struct = struct.Struct(">d")
    _python_type = (float, int)


class _PointInTime(_Primitive):
    """An aware datetime: a time of day without a zone is no point in time."""

    _python_type = datetime

    def encode(self, value: object) -> bytes:
        """Encode an aware datetime."""
        if isinstance(value, datetime) and value.tzinfo is None:
            raise WrongContent(f"{self!r} takes a datetime with a time zone, as datetime.now(timezone.utc) is")
        return super().encode(value)

    @abstractmethod
    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        ...


class _Milliseconds(_PointInTime):
    _struct = struct.Struct(">q")

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return ((value - _EPOCH) // _MILLISECOND,)

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return _EPOCH + timedelta(milliseconds=numbers[0])


class DateSchema(_Milliseconds):
    """An aware datetime in milliseconds: Java's `java.util.Date`."""

    _schema_info = SchemaInfo(SchemaType.DATE, "Date")


class TimestampSchema(_Milliseconds):
    """An aware datetime in milliseconds: Java's `java.sql.Timestamp`."""

    _schema_info = SchemaInfo(SchemaType.TIMESTAMP, "Timestamp")


class TimeSchema(_Primitive):
    """A time of day in milliseconds, in UTC: Java's `java.sql.Time`."""

    _schema_info = SchemaInfo(SchemaType.TIME, "Time")
    _struct = struct.Struct(">q")
    _python_type = time

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return (_nanoseconds(value) // 1_000_000,)

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return (_EPOCH + timedelta(milliseconds=numbers[0])).time()


class InstantSchema(_PointInTime):
    """An aware datetime in seconds and nanoseconds."""

    _schema_info = SchemaInfo(SchemaType.INSTANT, "Instant")
    _struct = struct.Struct(">qi")

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        seconds, microseconds = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
        return seconds, microseconds * 1000

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return _EPOCH + timedelta(seconds=numbers[0], microseconds=numbers[1] // 1000)


class LocalDateSchema(_Primitive):
    """A date."""

    _schema_info = SchemaInfo(SchemaType.LOCAL_DATE, "LocalDate")
    _struct = struct.Struct(">q")
    _python_type = date

    def encode(self, value: object) -> bytes:
        """Encode a date. A datetime is one, too, but has a time, which would be lost."""
        if isinstance(value, datetime):
            raise WrongContent(f"{self!r} takes a date, not a datetime")
        return super().encode(value)

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return (value.toordinal() - _EPOCH_DAY,)

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return date.fromordinal(numbers[0] + _EPOCH_DAY)


class LocalTimeSchema(_Primitive):
    """A time of day, without a time zone."""

    _schema_info = SchemaInfo(SchemaType.LOCAL_TIME, "LocalTime")
    _struct = struct.Struct(">q")
    _python_type = time

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return (_nanoseconds(value),)

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return _time_of(numbers[0])


class LocalDateTimeSchema(_Primitive):
    """A date and a time of day, without a time zone."""

    _schema_info = SchemaInfo(SchemaType.LOCAL_DATE_TIME, "LocalDateTime")
    _struct = struct.Struct(">qq")
    _python_type = datetime

    def encode(self, value: object) -> bytes:
        """Encode a datetime without a time zone."""
        if isinstance(value, datetime) and value.tzinfo is not None:
            raise WrongContent(f"{self!r} takes a datetime without a time zone, for it keeps none")
        return super().encode(value)

    def _numbers(self, value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of the type
        return value.toordinal() - _EPOCH_DAY, _nanoseconds(value.time())

    def _value(self, *numbers: Any) -> Any:  # noqa: ANN401 - of the type
        return datetime.combine(date.fromordinal(numbers[0] + _EPOCH_DAY), _time_of(numbers[1]))


def _nanoseconds(value: time) -> int:
    if value.tzinfo is not None:
        raise ValueError("a time of day without a time zone is needed")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * _SECOND_NS + value.microsecond * 1000


def _time_of(nanoseconds: int) -> time:
    if not 0 <= nanoseconds < _DAY_NS:
        raise ValueError(f"a day has no nanosecond {nanoseconds}")
    return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).time()


PRIMITIVES: Final[dict[int, Callable[[], Schema]]] = {
    SchemaType.NONE: lambda: BYTES,
    SchemaType.STRING: StringSchema,
    SchemaType.BOOLEAN: BooleanSchema,
    SchemaType.INT8: Int8Schema,
    SchemaType.INT16: Int16Schema,
    SchemaType.INT32: Int32Schema,
    SchemaType.INT64: Int64Schema,
    SchemaType.FLOAT: FloatSchema,
    SchemaType.DOUBLE: DoubleSchema,
    SchemaType.DATE: DateSchema,
    SchemaType.TIME: TimeSchema,
    SchemaType.TIMESTAMP: TimestampSchema,
    SchemaType.INSTANT: InstantSchema,
    SchemaType.LOCAL_DATE: LocalDateSchema,
    SchemaType.LOCAL_TIME: LocalTimeSchema,
    SchemaType.LOCAL_DATE_TIME: LocalDateTimeSchema,
}
"""The constructor of each primitive schema."""
