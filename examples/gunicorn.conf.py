"""How gunicorn is told to make a client in each worker, after the fork, and to close it. Copy what you need.

The application is one with `open` and `close`, such as `wsgi_visits.py` beside this file, which says how to start it.
"""

import os
from typing import Any

preload_app = True


def post_fork(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Have the worker's application connect; gunicorn calls this in the worker."""
    worker.app.wsgi().open(os.environ.get("PULSAR_URL", "pulsar://localhost:6650"))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Have it send what is still pending, and end; gunicorn calls this in the worker."""
    worker.app.wsgi().close()
