"""A program whose client fails over to a second cluster, and back. The argument is the client module to run it with."""

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.life import until
from tests.support.ports import free_ports

__all__ = ["QUICK", "QUIET", "leave_and_return"]

QUICK: dict[str, int] = {"check_interval_ms": 50, "failover_threshold": 2, "switch_back_threshold": 2}
QUIET = logging.getLogger("quiet")
QUIET.setLevel(logging.CRITICAL + 1)


def leave_and_return(module: Any) -> None:
    (port,) = free_ports(1)
    with EmbeddedBroker() as other:
        urls = [f"pulsar://127.0.0.1:{port}", other.service_url]
        primary, secondary = (module.ServiceInfo(url) for url in urls)
        failover = module.AutoClusterFailover(primary, [secondary], **QUICK)
        with EmbeddedBroker(port=port) as one:
            client = module.Client(failover, logger=QUIET)
            producer = client.create_producer("t")
            producer.send(b"x")
        until(lambda: client.get_service_info().service_url == urls[1])
        producer.send(b"y")
        with EmbeddedBroker(port=port) as one:
            until(lambda: client.get_service_info().service_url == urls[0])
            producer.send(b"z")
            until(lambda: len(one.call(lambda inside: inside.connections)) >= 1)
            client.close()
            if __name__ == "__main__":
                os._exit(0)  # the official client sometimes aborts the process when it is freed


if __name__ == "__main__":
    leave_and_return(importlib.import_module(sys.argv[1]))
