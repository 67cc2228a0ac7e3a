"""Connections of clients: commands in, calls of the model, answers out.

From the socket up: `doors.py` lets connections in, behind `tls_transport.py` where that is wanted; `session.py` is one
connection, and `outgoing.py` what is on its way to its client. `handlers.py` is the table of who handles which command,
one file for each family of them: `connect.py`, `lookup.py`, `topics.py`, `schemas.py`, `produce.py`, `subscribe.py`,
`acks.py`, `seek.py`, `transactions.py`; `answers.py` has the form of each refusal. All of them share `surroundings.py`.

Faults meet a connection in `reception.py`, `deaf.py` and `cut_transport.py`, and a command in `gate.py`, which carries
out `fault_actions.py`; `fault_rules.py` says when. `directory.py` and `serving.py` know which of several brokers has a
topic, `places.py` reads and writes places in one, and `web_door.py` lets in what speaks HTTP.
"""
