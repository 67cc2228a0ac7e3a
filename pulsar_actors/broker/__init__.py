"""An embedded Pulsar broker: it has Pulsar's protocol, and keeps all data in memory.

For demos, and for tests of programs.

    from pulsar_actors.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        client = Client(broker.service_url)

Read its parts in this order:

`model/` has topics, entries and cursors, and decides which consumer gets an entry; it has no sockets. `session/`
handles one connection of a client: commands in, calls of the model, commands out. `web/` does the same over HTTP:
lookups and admin calls. `broker.py` runs them on a loop, and `embedded.py` gives the loop a thread.

All code of one broker runs on its loop, one call after the other, so the model needs no locks and answers at once.
"""

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings

__all__ = ["EmbeddedBroker", "Settings"]
