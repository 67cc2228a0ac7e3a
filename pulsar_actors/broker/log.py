"""The broker's log: what a test that wonders about its broker turns on.

    logging.getLogger("pulsar_actors.broker").setLevel(logging.INFO)

At INFO stand the ports, each connection when it is accepted and when it ends, with the reason, and every command or
HTTP call that is refused; at ERROR the broker's own bugs, and nothing else. The name is a child of the client's: lines
of the two can be told apart, and the broker's do not go where a client's `logger=` sends that client's.
"""

from pulsar_actors.runtime.log import Log

LOG = Log("pulsar_actors.broker")
