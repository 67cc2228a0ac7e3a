"""A Django site in one file, which sends a message for each order. It needs `django`, and `gunicorn` or another server.

Run it in this folder, with a broker at `PULSAR_URL` or at Pulsar's usual address:

    gunicorn --workers 4 django_shop:application

Django has no hook for the start of a worker, so the client is created at the first order of each process. A process
that was forked after that creates its own. At the end of a process its client sends what is pending, and closes.
"""

import atexit
import json
import os
import secrets
from functools import lru_cache
from threading import Lock

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

import pulsar_actors as pulsar

_ONE_AT_A_TIME = Lock()


@lru_cache(maxsize=1)
def _orders(process: int) -> pulsar.Producer:
    """Connect a process. Its number is an argument, so that a forked process does not get what its parent has."""
    url = os.environ.get("PULSAR_URL", "pulsar://localhost:6650")
    client = pulsar.Client(url, operation_timeout_seconds=5)
    atexit.register(lambda: client.close() if os.getpid() == process else None)  # a fork inherits this function
    return client.create_producer("orders", send_timeout_millis=5000)


def orders() -> pulsar.Producer:
    """Return the producer of this process. Any number of threads use it."""
    with _ONE_AT_A_TIME:  # not two clients, if two requests come first
        return _orders(os.getpid())


@require_POST
def order(request: HttpRequest) -> JsonResponse:
    """Take an order. It is safe when this answers: the broker has stored it."""
    try:
        customer = str(json.loads(request.body)["customer"])
    except (ValueError, KeyError, TypeError):
        return JsonResponse({"error": "an order is JSON, and has a customer"}, status=400)
    try:
        message_id = orders().send(request.body, partition_key=customer)
    except pulsar.PulsarException as error:
        return JsonResponse({"error": f"try again later: {type(error).__name__}"}, status=503)
    return JsonResponse({"stored": str(message_id)}, status=202)


urlpatterns = [path("orders", order)]

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1", "testserver"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", secrets.token_urlsafe()),
)
application = get_wsgi_application()
