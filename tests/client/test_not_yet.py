import inspect
import pkgutil
from types import ModuleType
from typing import Any

import pulsar as official
import pytest

import pulsar_actors as ours
from pulsar_actors.client.not_yet import NOT_YET

MODULES: dict[str, tuple[ModuleType, ModuleType]] = {
    "pulsar_actors": (ours, official),
    "pulsar_actors.schema": (ours.schema, official.schema),
}
NOT_PUBLIC = {"BatchReceivePolicy", "KeySharedPolicy", "DeadLetterPolicyBuilder", "timedelta"}
"""What lies about there: the inside of its policies, and a class of Python's."""
NO_MODULES_OF_OURS = {"_pulsar", "__about__", "schema", "definition", "schema_avro", "schema_protobuf"}
"""How the official package is divided up, which nobody imports by name."""

each_name = pytest.mark.parametrize(("module", "name"), [(at, name) for at in NOT_YET for name in sorted(NOT_YET[at])])


def public_names(module: Any) -> set[str]:
    classes = {name for name, one in inspect.getmembers(module, inspect.isclass) if not name.startswith("_")}
    return classes | {one.name for one in pkgutil.iter_modules(module.__path__)} - NO_MODULES_OF_OURS


@each_name
def test_a_name_that_is_not_there_yet_is_said_to_be_so(module: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name}, which the official client has, is not there yet in {module}$"):
        getattr(MODULES[module][0], name)
    assert not hasattr(MODULES[module][0], name)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_the_official_package_is_there_or_said_to_be_missing(module: str) -> None:
    here, there = MODULES[module]
    missing = {name for name in public_names(there) if not hasattr(here, name)}
    assert missing - NOT_PUBLIC == NOT_YET[module]


def test_importing_one_names_it() -> None:
    with pytest.raises(ImportError, match="TableView"):
        from pulsar_actors import TableView  # type: ignore[attr-defined]  # noqa: F401, PLC0415 - it fails


@pytest.mark.parametrize("module", MODULES)
def test_any_other_name_is_missing_as_of_any_module(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'Clinet'") as caught:
        MODULES[module][0].Clinet  # noqa: B018 - it raises
    assert (caught.value.name, caught.value.obj) == ("Clinet", MODULES[module][0])  # so that Python suggests another
