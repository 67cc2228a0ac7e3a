"""The broker's log, for tests that wonder what the broker did.

    logging.getLogger("pulsar_actors.broker").setLevel(logging.INFO)

At INFO it has the ports, each connection when it is accepted and when it ends, with the reason, and every command or
HTTP call that is refused; at ERROR the broker's own bugs, and nothing else. The logger is not that of the client, and a
client's `logger=` does not get the broker's lines.
"""

from pulsar_actors.runtime.log import Log

LOG = Log("pulsar_actors.broker")
