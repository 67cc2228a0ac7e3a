"""An embedded Pulsar broker: it speaks Pulsar's protocol, in memory, for demos, tests and users' own tests.

    from pulsar_actors.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        client = Client(broker.service_url)

Its parts are best read in this order:

`model/` has topics, entries, cursors, and the decision who gets what; no sockets. `session/` has one connection of a
client: commands in, calls of the model, commands out. `web/` has the same over HTTP: lookups and the admin calls.
`broker.py` puts them on a loop, and `embedded.py` gives the loop a thread.

Everything of one broker happens on its loop, one thing after the other, so the model needs no locks and answers at
once.
"""

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings

__all__ = ["EmbeddedBroker", "Settings"]
