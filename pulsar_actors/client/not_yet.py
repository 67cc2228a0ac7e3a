"""Names of the official package that mean nothing here yet, so that whoever asks for one is told so.

A module of ours asks here for what it does not have. What is raised is an AttributeError either way, as of any module:
`hasattr` and `getattr` with a default keep their meaning, and so does what programs write around an import.
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
"""By the module that has them there."""


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have; with the module, Python says what may be meant."""
    said = f"module {module!r} has no attribute {name!r}"
    if name in NOT_YET[module]:
        said = f"{name}, which the official client has, is not there yet in {module}"
    return AttributeError(said, name=name, obj=sys.modules[module])
