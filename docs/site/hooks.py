"""Makes pages of what is outside of `docs`: the drawn state charts, the examples, and the texts beside the README.

In `docs` these are linked as files of the checkout (`../examples/retries.py`), so that the links work there, too. On
the site such a link leads to the page; if there is none, as for a file of the tests, its text stays without the link.
"""

import ast
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
TEXTS: Final = {"SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK: Final = re.compile(r"\[([^\]]*)\]\(((?!\w+:|#)[^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path in sorted((ROOT / "statecharts").glob("*")):
        if path.suffix in (".md", ".svg"):
            files.append(File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, use_directory_urls=True))
    for path in _examples():
        files.append(File.generated(config, _page_of(path), content=_example(path)))
    files.append(File.generated(config, "examples/index.md", content=_list_of_examples()))
    for name, page in TEXTS.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - of mkdocs
    """Lead the links of a page to pages of the site."""
    source = {to: name for name, to in TEXTS.items()}.get(page.file.src_uri)
    folder = PurePosixPath(page.file.src_uri).parent
    at = PurePosixPath(".") if source or folder.name == "statecharts" else PurePosixPath("docs")
    start = PurePosixPath("statecharts") if folder.name == "statecharts" else at

    def lead(match: "re.Match[str]") -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        target = _normal(start / path)
        page_of_target = _in_site(target)
        if page_of_target is None:
            return text
        return f"[{text}]({_relative(page_of_target, folder)}{anchor})"

    return markdown if folder.parts[:1] in (("reference",), ("examples",)) else LINK.sub(lead, markdown)


def _in_site(path: PurePosixPath) -> str | None:
    """Return the page of a file of the checkout; None if it has none."""
    if path.parts[0] == "docs":
        return PurePosixPath(*path.parts[1:]).as_posix()
    if path.parts[0] == "statecharts":
        return (path / "README.md" if len(path.parts) == 1 else path).as_posix()
    if path.as_posix() in TEXTS:
        return TEXTS[path.as_posix()]
    if path.as_posix() == "README.md":
        return "index.md"
    if ROOT / path in _examples():
        return _page_of(ROOT / path)
    return None


def _examples() -> list[Path]:
    return sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".py", ".ipynb"))


def _page_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix(".md").as_posix()


def _example(path: Path) -> str:
    """Write the page of an example: its name, what it says of itself, and the program."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return f"# {path.name}\n\n{ast.get_docstring(ast.parse(source))}\n\n```python\n{source}```\n"
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(source)["cells"]]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in cells) + "\n"


def _list_of_examples() -> str:
    lines = ["# Examples", "", "Complete programs. Most run as they are, against a broker in memory.", ""]
    for path in _examples():
        told = _example(path).split("\n\n")[1].partition(". ")[0].partition("\n")[0]
        name = path.relative_to(ROOT / "examples")
        lines.append(f"- [{name}]({name.with_suffix('.md').as_posix()}): {told}")
    return "\n".join(lines) + "\n"


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != "..":
            parts.append(part)
    return PurePosixPath(*parts)


def _relative(page: str, folder: PurePosixPath) -> str:
    return "../" * len(folder.parts) + page
