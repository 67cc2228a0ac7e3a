"""Checks an Avro definition before fastavro reads with it.

A definition comes from the registry, where any producer may have put it, and a payload comes from any producer. The
compiled reader of fastavro does not limit how deep it goes: a payload of 5 KB that goes down in a record that contains
itself ends the process. So recursive definitions are noticed, and read by fastavro's reader in Python, which raises.
Refused are definitions that are nested too deep, those of a record that always contains itself, and arrays whose items
take no bytes: a few bytes of payload would be billions of items.
"""

from typing import Any, Final, cast

from pulsar_actors.schema.codec import items_of

__all__ = ["is_recursive"]

MAX_DEPTH: Final = 200


def is_recursive(schema: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a record contains itself. Raise ValueError for a definition that no reader should follow."""
    walk = _Walk()
    walk.takes_bytes(schema, "", 0)
    return walk.is_recursive


class _Walk:
    """A walk through one definition. What is no definition at all, it leaves to fastavro."""

    def __init__(self) -> None:
        self.is_recursive = False
        self._named: dict[str, bool] = {}  # whether each type that is complete takes bytes
        self._open: dict[str, int] = {}  # records that are not complete, by the number of choices around them
        self._choices = 0  # unions, arrays and maps around: each can end a recursion

    def takes_bytes(self, schema: Any, namespace: str, depth: int) -> bool:  # noqa: ANN401, PLR0911 - JSON; a line for each type
        """Return whether each value takes at least one byte."""
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} types deep")
        if isinstance(schema, str):
            return self._is_taking(_full_name(schema, namespace), schema)
        if isinstance(schema, list):
            self._within_choice(items_of(schema), namespace, depth)
            return True
        if not isinstance(schema, dict):
            return True
        inner = cast("dict[str, Any]", schema)
        kind = inner.get("type")
        match kind:
            case "record" | "error":
                return self._record(inner, namespace, depth)
            case "array":
                if not self._within_choice([inner.get("items")], namespace, depth):
                    raise ValueError("the items of an array take no bytes")
            case "map":
                self._within_choice([inner.get("values")], namespace, depth)
            case "enum" | "fixed":
                takes_bytes = kind == "enum" or inner.get("size") != 0
                self._named[_name_of(inner, namespace)[0]] = takes_bytes
                return takes_bytes
            case _:
                return self.takes_bytes(kind, namespace, depth + 1)
        return True

    def _is_taking(self, full_name: str, name: str) -> bool:
        around = self._open.get(full_name)
        if around is None:
            return self._named.get(full_name, name != "null")
        if around == self._choices:
            raise ValueError(f"each {name} contains another {name}, without an end")
        self.is_recursive = True
        return True

    def _within_choice(self, schemas: list[Any], namespace: str, depth: int) -> bool:
        self._choices += 1
        taking = [self.takes_bytes(one, namespace, depth + 1) for one in schemas]
        self._choices -= 1
        return all(taking)

    def _record(self, record: dict[str, Any], namespace: str, depth: int) -> bool:
        full_name, own_namespace = _name_of(record, namespace)
        fields = record.get("fields")
        self._open[full_name] = self._choices
        taking = [
            self.takes_bytes(cast("dict[str, Any]", one).get("type"), own_namespace, depth + 1)
            for one in (items_of(fields) if isinstance(fields, list) else ())
            if isinstance(one, dict)
        ]
        del self._open[full_name]
        self._named[full_name] = any(taking)
        return self._named[full_name]


def _name_of(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of what is in it."""
    own = schema.get("namespace", namespace)
    full_name = _full_name(str(schema.get("name")), own if isinstance(own, str) else "")
    return full_name, full_name.rpartition(".")[0]


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
