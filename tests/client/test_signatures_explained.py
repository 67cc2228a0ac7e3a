"""What `help()` says of the calls that take many arguments: each is explained, with its default, in its order."""

import inspect
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.producer import Producer

CALLS = (Client.__init__, Client.create_producer, Client.subscribe, Client.create_reader, Producer.send)


def shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    value = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
    return f"{parameter.name} = {value}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_every_argument_is_explained_with_its_default(call: Callable[..., Any]) -> None:
    heads = re.findall(r"^(\w+(?: = \S+)?)$", inspect.getdoc(call) or "", re.MULTILINE)
    assert heads == [shown(one) for name, one in inspect.signature(call).parameters.items() if name != "self"]
