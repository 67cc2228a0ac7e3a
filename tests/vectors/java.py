"""The scenario of the official Java client: runs `JavaClient.java` and keeps the ledger of what that says it sent."""

import json
import subprocess
from pathlib import Path

from tests.vectors.stage import Stage
from tests.vectors.tapped_broker import jars, tool


def java(stage: Stage) -> None:
    """The official Java client: every codec and field, transactions, schemas, a watched pattern."""
    url = f"pulsar://127.0.0.1:{stage.tap.port}"
    source = Path(__file__).with_name("JavaClient.java")
    command = [tool("java"), "-cp", f"{jars()}/*", str(source), url]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603 -- our own words
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if "step" in told:
                stage.step(told["step"])
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                stage.remember(told["ledger"], told["entry"], told["batch_index"], told["message"])
    if process.returncode:
        raise RuntimeError(stage.tap.step)
