"""Has the conversation with a real broker, and writes its answers to `answers.jsonl`.

    python tests/broker/web/record.py

Needs Java 17, Maven (for the first run) and `pulsar-client`, and half a minute.
"""

import json
import tempfile
from pathlib import Path

from tests.broker.web.conversation import converse

HERE = Path(__file__).parent

from tests.support.standalone import Standalone  # noqa: E402 -- found in the folder of the line above


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        standalone = Standalone(Path(scratch))
        standalone.start()
        try:
            port = int(standalone.web_url.rpartition(":")[2])
            answers = converse(port, standalone.service_url)
        finally:
            standalone.kill()
    (HERE / "answers.jsonl").write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))


if __name__ == "__main__":
    main()
