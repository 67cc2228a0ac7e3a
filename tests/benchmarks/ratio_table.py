"""The comparison as a table in Markdown."""

from collections.abc import Iterable, Sequence

from tests.benchmarks.measured import Line

HEAD = (
    "| | ours | official | Java | ours ÷ official | ours ÷ Java | CPU µs: ours | official | Java |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def table(lines: Iterable[Line]) -> str:
    """Return the table."""
    return HEAD + "".join(f"| {' | '.join(_cells(line))} |\n" for line in lines)


def _cells(line: Line) -> Sequence[str]:
    values = [_value(line, client) for client in ("ours", "official", "java")]
    ratios = [_ratio(line, client, target) for client, target in zip(("official", "java"), line.targets, strict=True)]
    cpu = [_number(line.cpu(client)) for client in ("ours", "official", "java")]
    return [f"{line.name}, {line.unit}", *values, *ratios, *cpu]


def _value(line: Line, client: str) -> str:
    if line.median(client) is None:
        return ""
    low, high = line.spread(client)
    return f"{_number(line.median(client))} ({_number(low)} to {_number(high)})"


def _ratio(line: Line, client: str, target: float | None) -> str:
    ratio = line.ratio(client)
    if ratio is None:
        return ""
    wanted = "" if target is None else f" of {target:g}"
    return f"**{ratio:.2f}**{wanted}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
