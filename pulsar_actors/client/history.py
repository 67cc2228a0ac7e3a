"""The history of a client or a handle: its last changes of state, to read or to save for somebody who can explain it.

    print(client.history())
    client.history().save("history.json")  # for `pulsar-actors explain history.json`

Every state machine keeps its last changes all the time (`machines/machine_history.py`), so a history can be asked for
after something has gone wrong.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from pulsar_actors.client.validation import path as check_path
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.runtime.actor import ActorRef, LoopActor, actor_of
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.state_changes import StateChange, read

__all__ = ["History", "StateChange"]

FORMAT: Final = "pulsar_actors history, version 1"


class History(tuple[StateChange, ...]):
    """Changes of state, the oldest first. `str` has a line for each."""

    __slots__ = ()

    @classmethod
    def of(cls, *addresses: ActorRef) -> "History":
        """Return the history of these actors; one that is named twice counts once."""
        actors = [actor_of(address) for address in dict.fromkeys(addresses)]
        return cls(read((named for actor in actors for named in actor.histories()), _loop_of(actors[0])))

    @classmethod
    def of_machine(cls, name: str, machine: StateMachine, owner: ActorRef) -> "History":
        """Return the history of one machine of an actor that has several; also if the actor has forgotten it."""
        return cls(read([(name, machine.history)], _loop_of(actor_of(owner))))

    @classmethod
    def load(cls, path: str | Path) -> "History":
        """Read a history from a file that `save` has written."""
        file = _file(path)
        try:
            return cls(_changes_in(file.read_text(encoding="utf-8")))
        except ValueError as wrong:
            raise InvalidArgument(f"{str(path)!r} is no saved history: {wrong}") from None

    def save(self, path: str | Path) -> None:
        """Write the history to a file, as JSON. It has no messages, no credentials and no texts of errors in it."""
        content = {"format": FORMAT, "changes": [change._asdict() for change in self]}
        _file(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def _loop_of(actor: LoopActor) -> Loop:
    """Return the loop of the guardian, whose clock is that of all histories of a client."""
    return (actor if actor.guardian is None else actor_of(actor.guardian)).loop


def _file(path: object) -> Path:
    return path if isinstance(path, Path) else Path(str(check_path("path", path)))


def _changes_in(text: str) -> Iterator[StateChange]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"it is no JSON ({wrong})") from None
    if not isinstance(content, dict) or cast("Any", content).get("format") != FORMAT:
        raise ValueError(f"it has no format {FORMAT!r}")
    changes: Any = cast("Any", content).get("changes")
    if not isinstance(changes, list):
        raise ValueError("it has no list of changes")  # noqa: TRY004 - told as all that is wrong with it
    for number, values in enumerate(cast("Any", changes), 1):
        try:
            yield _checked(values)
        except TypeError:
            raise ValueError(f"change {number:,} in it is not whole") from None


_OPTIONAL: Final = ("guard", "action", "error")


def _checked(values: Any) -> StateChange:  # noqa: ANN401 - whatever is in the file
    change = StateChange(**values)
    for name, value in change._asdict().items():
        kind = (int, float) if name == "time" else str
        if not (isinstance(value, kind) or (value is None and name in _OPTIONAL)) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}")
    return change
