"""An embedded Pulsar broker: it has Pulsar's protocol, and keeps all data in memory, or in a data folder as well.

For demos, and for tests of programs.

    from pulsar_actors.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        client = Client(broker.service_url)

Read its parts in this order:

`model/` has topics, entries and cursors, and decides which consumer gets an entry; it has no sockets. `session/`
handles one connection of a client: commands in, calls of the model, commands out. `web/` does the same over HTTP:
lookups and admin calls. `data_folder.py` stores what survives a restart. `broker.py` runs them on a loop, and
`embedded.py` gives the loop a thread.

All code of one broker runs on its loop, one call after the other, so the model needs no locks and answers at once.
"""

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.tokens import Tokens

__all__ = ["EmbeddedBroker", "Settings", "Tokens"]
