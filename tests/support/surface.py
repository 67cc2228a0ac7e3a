"""The public surface of a package: a fact about each module, class, method, parameter and value that programs can name.

`surface_of` finds them by itself. Names are written without the package, so that two packages can be compared:
`Client.close()`, `Client(service_url)` for an argument, `with Client` for what Python does with an object.
"""

import dis
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from inspect import Parameter
from types import ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["Difference", "Fact", "differences", "surface_of"]

MISSING: Final = "missing here"
ADDED: Final = "only here"
_SAME: Final = "the same as "
_NO_ARGUMENTS: Final = {"self", "args", "kwargs"}

OPERATIONS: Final = {
    "__eq__": "{} == …",
    "__hash__": "hash({})",
    "__lt__": "{} < …",
    "__gt__": "{} > …",
    "__le__": "{} <= …",
    "__ge__": "{} >= …",
    "__len__": "len({})",
    "__iter__": "iter({})",
    "__next__": "next({})",
    "__aiter__": "aiter({})",
    "__contains__": "… in {}",
    "__getitem__": "{}[…]",
    "__call__": "{}(…)",
    "__int__": "int({})",
    "__bool__": "bool({})",
    "__enter__": "with {}",
    "__aenter__": "async with {}",
    "__await__": "await {}",
    "__str__": "str({})",
}
"""What a class may define for operators, statements and functions of Python."""
_ALSO_OF_PYTHON: Final = {"__eq__", "__int__", "__str__"}
"""What counts also if a class has it from a base of Python's. Everything else is told by that base."""


class Fact(NamedTuple):
    """What is known of a name: what it is, and the module, class or function that it belongs to."""

    text: str
    owner: str = ""
    member: str = ""


class Difference(NamedTuple):
    """A name that is not the same in both packages, and how it differs."""

    name: str
    how: str


Surface = dict[str, Fact]


def differences(official: Surface, ours: Surface) -> set[Difference]:
    """Compare two surfaces. What belongs to a name that one of them lacks is not listed besides."""
    found = dict[tuple[str, str, str], Difference]()
    for name in official.keys() | ours.keys():
        here, there = ours.get(name), official.get(name)
        fact = here or there or Fact("")
        if (here and here.text) == (there and there.text) or _lies_in_a_difference(fact, official, ours):
            continue
        how = MISSING if here is None else ADDED if there is None else _contrast(here.text, there.text)
        if there is None and (fact.member == "->" or fact.text.removeprefix(_SAME) in ours.keys() - official.keys()):
            continue  # a type that only one states, and one more name of what is listed
        found[fact.owner, fact.member or name, how] = Difference(name, how)
    return {one for key, one in found.items() if not any(base in found for base in _in_bases(key, official, ours))}


def _contrast(here: str, there: str) -> str:
    """Write what two facts do not share."""
    parts, other_parts = here.split(", "), there.split(", ")
    if len(parts) == len(other_parts):
        differing = [(part, other) for part, other in zip(parts, other_parts, strict=True) if part != other]
        here, there = (", ".join(side) for side in zip(*differing, strict=True))
    return f"{here} instead of {there}"


def _lies_in_a_difference(fact: Fact, official: Surface, ours: Surface) -> bool:
    while fact.owner:
        if (fact.owner in official) != (fact.owner in ours):
            return True
        fact = official.get(fact.owner, Fact(""))
    return False


def _in_bases(key: tuple[str, str, str], official: Surface, ours: Surface) -> Iterator[tuple[str, str, str]]:
    """Yield the same difference in each class that both packages have as a base of this one's class."""
    owner, member, how = key
    cls, dot, method = owner.rpartition(".") if owner.endswith("()") else (owner, "", "")
    for name in official.keys() & ours.keys():
        fact = ours[name]
        if fact.owner == cls and fact.text == "a base":
            yield (f"{fact.member}{dot}{method}", member, how)


def surface_of(package: str, known: Iterable[str] = ()) -> Surface:
    """Return what is public in a package and in its modules, by name.

    With the `known` names of another package, modules that the other one lacks are left out. A class that has several
    names is described at the first known one.
    """
    known = [*known]
    found = dict[str, Any]()
    for module_name in _modules(package):
        at = module_name.removeprefix(package).removeprefix(".")
        if known and at not in {"", *known}:
            continue
        module = import_module(module_name)
        if at:
            found[at] = module
        found.update({f"{at}.{name}" if at else name: value for name, value in _members(module, package)})
    first = dict[int, str]()
    for path in [*(name for name in known if name in found), *found]:
        if inspect.isroutine(found[path]) or inspect.isclass(found[path]):
            first.setdefault(id(found[path]), path)
    facts: Surface = {}
    for path, value in found.items():
        described = first.get(id(value), path)
        owner = path.rpartition(".")[0]
        if described != path:
            facts[path] = Fact(f"{_SAME}{described}", owner)
        else:
            facts.update(_facts_of(path, owner, value, first))
    return facts


def _modules(package: str) -> list[str]:
    root = import_module(package)
    names = [one.name for one in pkgutil.walk_packages(root.__path__, f"{package}.")]
    public = [name for name in names if not name.rpartition(".")[2].startswith("_")]
    return sorted([package, *public], key=lambda name: (name.count("."), name))


def _members(module: ModuleType, package: str) -> Iterator[tuple[str, Any]]:
    """Yield the names that a module is there for: not those of Python, of other packages, and of other modules."""
    collects = hasattr(module, "__path__") or hasattr(module, "__all__")
    for name in getattr(module, "__all__", sorted(vars(module))):
        value = getattr(module, name)
        home = str(getattr(value, "__module__", module.__name__))
        if inspect.ismodule(value) or (name.startswith("_") and name != "__version__"):
            continue
        if home in {module.__name__, "_pulsar"} or (collects and home.startswith(f"{package}.")):
            yield name, value


def _facts_of(path: str, owner: str, value: Any, public: dict[int, str]) -> Surface:
    if inspect.isclass(value):
        return dict(_class_facts(path, owner, value, public))
    if inspect.isroutine(value):
        return dict(_call_facts(owner, path, value, "a function"))
    return {path: Fact("a module" if inspect.ismodule(value) else f"a {type(value).__name__}", owner)}


def _class_facts(path: str, owner: str, cls: type, public: dict[int, str]) -> Iterator[tuple[str, Fact]]:
    members = getattr(cls, "__members__", None)
    kind = "an enum" if members is not None else "an exception" if issubclass(cls, BaseException) else "a class"
    yield path, Fact(kind, owner)
    for base in cls.__mro__[1:]:
        if base is not object and (id(base) in public or base.__module__ == "builtins"):
            name = public.get(id(base), base.__name__)
            yield f"issubclass({path}, {name})", Fact("a base", path, name)
    for operation, form in OPERATIONS.items():
        if _defines(cls, operation):
            yield form.format(path), Fact("there", path, form)
    for name, member in (members or {}).items():
        truth = "true" if member else "false"
        yield f"{path}.{name}", Fact(f"{_number(member)}, {truth} in a condition", path, name)
    if members is None:
        yield from _attributes(path, cls)


def _attributes(path: str, cls: type) -> Iterator[tuple[str, Fact]]:
    if not issubclass(cls, BaseException):
        yield from _parameters(path, path, cls)
    for name in dir(cls):
        if not name.startswith("_") and not _is_of_python(cls, name):
            yield from _attribute_facts(path, cls, name, inspect.getattr_static(cls, name))
    for name in sorted(_set_by_init(cls)):
        yield f"{path}.{name}", Fact("an attribute", path, name)


def _is_of_python(cls: type, name: str) -> bool:
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return owner.__module__.partition(".")[0] in sys.stdlib_module_names


def _set_by_init(cls: type) -> set[str]:
    """Return the attributes that `__init__` gives to an object."""
    code = getattr(vars(cls).get("__init__"), "__code__", None)
    stores = dis.get_instructions(code) if code else ()
    return {one.argval for one in stores if one.opname == "STORE_ATTR" and not one.argval.startswith("_")}


def _attribute_facts(path: str, cls: type, name: str, attribute: Any) -> Iterator[tuple[str, Fact]]:
    if isinstance(attribute, (staticmethod, classmethod)):
        kind = "static" if isinstance(attribute, staticmethod) else "class"
        yield from _call_facts(path, f"{path}.{name}", getattr(cls, name), f"a {kind} method")
    elif callable(attribute) and not inspect.isclass(attribute):
        yield from _call_facts(path, f"{path}.{name}", attribute, "a method")
    elif inspect.isdatadescriptor(attribute):
        yield f"{path}.{name}", Fact("an attribute", path, name)
    else:
        yield f"{path}.{name}", Fact(f"a {type(attribute).__name__}", path, name)


def _call_facts(owner: str, path: str, call: Any, kind: str) -> Iterator[tuple[str, Fact]]:
    yield f"{path}()", Fact(kind, owner, path.removeprefix(f"{owner}.") + "()")
    yield from _parameters(f"{path}()", path, call)
    returned = _annotated(getattr(call, "__annotations__", {}).get("return", inspect.Signature.empty))
    if returned:
        yield f"{path}() -> …", Fact(returned, f"{path}()", "->")


def _parameters(owner: str, path: str, call: Any) -> Iterator[tuple[str, Fact]]:
    try:
        parameters = inspect.signature(call).parameters
    except ValueError:  # one of C++
        return
    place = 0
    for name, one in parameters.items():
        if name in _NO_ARGUMENTS:
            continue
        place += one.kind is Parameter.POSITIONAL_OR_KEYWORD
        at = f"argument {place}" if one.kind is Parameter.POSITIONAL_OR_KEYWORD else f"{one.kind.description} argument"
        default = "required" if one.default is Parameter.empty else f"default {_written(one.default)}"
        yield f"{path}({name})", Fact(f"{at}, {default}", owner, f"({name})")


def _written(value: Any) -> str:
    """Write a value such that the same is written alike, whichever package it is from."""
    if hasattr(type(value), "__members__"):
        return f"{type(value).__name__}.{value.name}"
    return repr(value) if type(value).__module__ == "builtins" else type(value).__name__


def _annotated(annotation: Any) -> str:
    """Write an annotation without modules, and without the ways in which versions of Python write the same."""
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(\w+\.)+", "", text).replace("List[", "list[")
    return re.sub(r"Optional\[(.*)\]$", r"\1 | None", text)


def _defines(cls: type, operation: str) -> bool:
    if operation == "__str__" and _defines(cls, "__repr__"):
        return True  # which str() falls back to
    if operation == "__bool__" and hasattr(cls, "__members__"):
        return False  # said of each member
    if operation == "__hash__":
        return cls.__hash__ is not None
    owner = next((base for base in cls.__mro__ if operation in vars(base)), object)
    by_python = owner.__module__ == "builtins" and operation not in _ALSO_OF_PYTHON
    return owner is not object and not by_python and vars(owner)[operation] is not None


def _number(member: object) -> str:
    """Return the number of a member of an enum, if it is one."""
    return str(int(member)) if isinstance(member, int) or hasattr(member, "__int__") else "no number"
