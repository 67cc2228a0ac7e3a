"""How gunicorn is told to make a client in each worker, after the fork. Copy what you need.

The application finds it as `worker.app.pulsar`, or wherever else it looks for what belongs to its process.
"""

import os
from typing import Any

import pulsar_actors as pulsar

preload_app = True


def post_fork(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Make the worker's client; gunicorn calls this in the worker."""
    worker.app.pulsar = pulsar.Client(os.environ.get("PULSAR_URL", "pulsar://localhost:6650"))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Close it, which sends what is still pending; gunicorn calls this in the worker."""
    worker.app.pulsar.close()
