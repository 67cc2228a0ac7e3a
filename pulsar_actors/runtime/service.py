"""Which cluster a client is with, and how it is let in there: all of this changes together, if it changes.

Each that a client is given has a number, so that what was found out about an earlier one is told apart.
"""

from typing import NamedTuple

from pulsar_actors.runtime.connection_actor import Entrance
from pulsar_actors.wire.service_url import ServiceUrl


class Service(NamedTuple):
    """A cluster."""

    url: ServiceUrl
    entrance: Entrance
    number: int = 0
