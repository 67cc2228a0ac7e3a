"""The broker's log.

    logging.getLogger("pulsar_actors.broker").setLevel(logging.INFO)

At INFO it has the ports, each connection when it is accepted and when it ends, with the reason, and every command or
HTTP call that is refused; at ERROR only bugs of the broker. It is another logger than the client's, and a client's
`logger=` does not get the broker's lines.
"""

from pulsar_actors.runtime.log import Log

LOG = Log("pulsar_actors.broker")
