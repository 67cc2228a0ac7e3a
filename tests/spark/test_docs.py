"""The programs of docs/spark.md, one after the other, in one session."""

import re
from pathlib import Path
from typing import Any

from tests.spark.traffic import Traffic
from tests.support.subjects import Broker

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_programs_of_the_documentation_work(spark: Any, embedded: Broker, checkpoint: str) -> None:
    embedded.admin.create("persistent://public/default/safe")
    embedded.admin.set_deduplication("persistent://public/default/safe", on=True)
    names = {
        "spark": spark,
        "url": embedded.service_url,
        "web_url": embedded.admin.web_url,
        "checkpoint": checkpoint,
    }
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(block, "docs/spark.md", "exec"), names)  # noqa: S102 - our own text
    with Traffic(embedded.service_url) as traffic:
        assert len(traffic.read("upper-orders")) == 2000
        assert len(traffic.read("safe")) == 1000
