"""A gunicorn configuration that creates a client in each worker, after the fork, and closes it.

Copy what you need. The application has `open` and `close`, like `wsgi_visits.py` beside this file, which says how to
start it. In a folder of its own it may be called `gunicorn.conf.py`: gunicorn reads that without being told, whichever
application it starts there.
"""

import os
from typing import Any

preload_app = True


def post_fork(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Connect the worker's application. Gunicorn calls this in the worker."""
    worker.app.wsgi().open(os.environ.get("PULSAR_URL", "pulsar://localhost:6650"))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's own hook
    """Send the pending messages, and close the client. Gunicorn calls this in the worker."""
    worker.app.wsgi().close()
