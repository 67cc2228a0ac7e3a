"""The error for a name of the official package that is not there yet."""

from types import ModuleType

import pytest

import pulsar_actors as ours
from pulsar_actors.client.unimplemented import UNIMPLEMENTED

MODULES: dict[str, ModuleType] = {"pulsar_actors": ours, "pulsar_actors.schema": ours.schema}

each_name = pytest.mark.parametrize(
    ("module", "name"), [(at, name) for at in UNIMPLEMENTED for name in sorted(UNIMPLEMENTED[at])]
)


@each_name
def test_a_name_that_is_not_there_yet_is_said_to_be_so(module: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name}, which the official client has, is not there yet in {module}$"):
        getattr(MODULES[module], name)
    assert not hasattr(MODULES[module], name)


def test_importing_one_names_it() -> None:
    with pytest.raises(ImportError, match="EncryptionKey"):
        from pulsar_actors import EncryptionKey  # type: ignore[attr-defined]  # noqa: F401, PLC0415 - it fails


@pytest.mark.parametrize("module", MODULES)
def test_any_other_name_is_missing_as_of_any_module(module: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'Clinet'") as caught:
        MODULES[module].Clinet  # noqa: B018 - it raises
    assert (caught.value.name, caught.value.obj) == ("Clinet", MODULES[module])  # so that Python suggests another
