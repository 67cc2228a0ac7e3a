"""Names of the official package that are not implemented yet, for a clear error.

A module asks here for an attribute that it does not have. The error is an AttributeError, as of any module: `hasattr`,
and `getattr` with a default, keep their meaning, and so do programs that guard an import.
"""

import sys
from typing import Final

__all__ = ["NOT_YET", "missing"]


NOT_YET: Final = {
    "pulsar_actors": frozenset(
        {
            *("AuthenticationAthenz", "CryptoKeyReader", "EncryptionKey", "TableView", "tableview", "asyncio"),
            *("functions", "Context", "Function", "IdentitySerDe", "PickleSerDe", "SerDe"),
        }
    ),
    "pulsar_actors.schema": frozenset(
        {
            *("AvroSchema", "JsonSchema", "ProtobufNativeSchema", "Record", "Field", "Array", "Map", "CustomEnum"),
            *("Null", "Boolean", "Integer", "Long", "Float", "Double", "Bytes", "String"),
        }
    ),
}
"""By module."""


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have. It holds the module, so that Python can suggest names."""
    text = f"module {module!r} has no attribute {name!r}"
    if name in NOT_YET[module]:
        text = f"{name}, which the official client has, is not there yet in {module}"
    return AttributeError(text, name=name, obj=sys.modules[module])
