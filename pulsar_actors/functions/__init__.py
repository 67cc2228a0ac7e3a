"""The interface of Pulsar Functions, which functions are written and tested against.

A function worker of a Pulsar cluster runs a function with a runtime of its own, which has its own `Context`. There is
nothing here that runs one: in a test, call `process` with a subclass or a mock of `Context`.
"""

from pulsar_actors.functions.context import Context
from pulsar_actors.functions.function import Function
from pulsar_actors.functions.serde import IdentitySerDe, PickleSerDe, SerDe

__all__ = ["Context", "Function", "IdentitySerDe", "PickleSerDe", "SerDe"]
