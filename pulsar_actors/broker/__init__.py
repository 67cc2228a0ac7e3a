"""An embedded Pulsar: an in-memory broker that speaks the same wire, for demos, tests and users' own tests.

    from pulsar_actors.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        client = Client(broker.service_url)

It has three parts, and they are best read in this order:

    model/      what a broker knows and decides: topics, entries, cursors, who gets what; no sockets.
    session/    one connection of a client: commands in, calls of the model, commands out.
    web/        the same over HTTP: lookups and the admin calls.

`broker.py` puts them on a loop, as `options.py` says, and `embedded.py` gives that a thread. Everything of one broker
happens on its loop, one thing after the other, so the model needs no locks and gives its answers at once. `tokens.py`
makes and checks tokens, `faults.py` takes what the broker shall do wrong, and `log.py` has what it says of all this.
"""

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings

__all__ = ["EmbeddedBroker", "Settings"]
