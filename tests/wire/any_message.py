"""Any message of a class of the protocol, for hypothesis."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
}


def filled(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[Any]:
    """Messages of a class, with their required fields and any of the others; a third level down, only the former."""
    kind: Any = GetMessageClass(descriptor)
    missing = kind().FindInitializationErrors()
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in descriptor.fields:
        if depth > 1 and field.name not in missing:
            continue
        if field.message_type is not None:
            value = filled(field.message_type, depth + 1)
        elif field.enum_type is not None:
            value = st.sampled_from([value.number for value in field.enum_type.values])
        else:
            value = SCALARS[field.type]
        if hasattr(getattr(kind(), field.name), "extend"):
            value = st.lists(value, max_size=2)
        (required if field.name in missing else optional)[field.name] = value

    def build(values: dict[str, Any]) -> Message:
        return kind(**values)

    return st.fixed_dictionaries(required, optional=optional).map(build)
