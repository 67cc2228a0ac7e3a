"""The routes of the page: the files for the browser, the snapshot, the pictures of the charts, and the faults.

All addresses begin with a secret. Without it, other users of the machine could read the page, and any page in the same
browser could set faults.
"""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Final

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.inspector.snapshot import Snapshot, as_json
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.statecharts.drawn_chart import drawn_charts, find_charts
from pulsar_actors.statecharts.picture import STYLE, draw_picture

SECRET_BYTES: Final = 18

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
    "json": "application/json",
}


class Answer(NamedTuple):
    """An answer to a request."""

    status: int
    content_type: str = ""
    body: bytes = b""


NOT_FOUND: Final = Answer(404)
DONE: Final = Answer(204)
PAGE: Final = {"index.html": "html", "page.css": "css", "page.js": "js"}


class Site:
    """One page. `packages` have the modules of the charts, and `faults` are what can be clicked, by their labels."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        packages: tuple[ModuleType, ...],
        faults: Mapping[str, Callable[[], object]],
    ) -> None:
        self.root: Final = f"/{secrets.token_urlsafe(SECRET_BYTES)}/"
        self._snapshot = snapshot
        self._packages = packages
        self._faults = dict(faults)
        self._lock = threading.Lock()
        self._pictures: dict[str, bytes] = {}

    def get(self, target: str) -> Answer:
        """Answer a GET."""
        folder, _, name = self._path(target)
        try:
            match folder, name:
                case "snapshot", "":
                    return _json(200, {**as_json(self._snapshot()), "faults": [*self._faults]})
                case "charts", chart:
                    return self._chart(chart.removesuffix(".svg"))
                case file, "":
                    return _file(file or "index.html")
                case _:
                    return NOT_FOUND
        except PulsarException as ended:  # the broker has been stopped
            return _json(503, {"reason": str(ended)})

    def post(self, target: str) -> Answer:
        """Set a fault: `faults/0` is the first of the list."""
        folder, _, number = self._path(target)
        chosen = {f"{at}": fault for at, fault in enumerate(self._faults.values())}.get(number)
        if folder != "faults" or chosen is None:
            return NOT_FOUND
        try:
            chosen()
        except PulsarException as ended:
            return _json(503, {"reason": str(ended)})
        return DONE

    def _path(self, target: str) -> tuple[str, str, str]:
        """Split what comes after the secret at its slash. Without the secret it is an address that does not exist."""
        given, root = target[: len(self.root)], self.root
        if not secrets.compare_digest(given.encode("utf-8", "replace"), root.encode()):
            return "no secret", "", "no secret"
        return target[len(root) :].partition("/")

    def _chart(self, name: str) -> Answer:
        """Draw a chart, once. All charts are found first, since those of producer and consumer share rows."""
        with self._lock:
            if name not in self._pictures:
                chart = next((one for one in drawn_charts(find_charts(*self._packages)) if one.name == name), None)
                if chart is None:
                    return NOT_FOUND
                self._pictures[name] = _without_style(str(draw_picture(chart))).encode()
            return Answer(200, TYPES["svg"], self._pictures[name])


def _without_style(picture: str) -> str:
    """Remove the rules of a picture: page.css has them, and a browser should apply none that come from elsewhere."""
    before, _, rest = picture.partition("<style>")
    return before + rest.partition("</style>")[2]


@cache
def _file(name: str) -> Answer:
    kind = PAGE.get(name)
    if kind is None:
        return NOT_FOUND
    content = (files("pulsar_actors.inspector") / "page" / name).read_bytes()
    return Answer(200, TYPES[kind], STYLE.encode() + content if kind == "css" else content)


def _json(status: int, value: object) -> Answer:
    return Answer(status, TYPES["json"], json.dumps(value).encode())
