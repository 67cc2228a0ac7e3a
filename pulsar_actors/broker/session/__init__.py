"""Connections of clients: commands in, calls of the model, answers out.

`listeners.py` accepts a connection, `session.py` is one connection, and `lifecycle.py` decides whom to accept.
`handlers.py` is the table of commands; each family of them has a file: connect, lookup, schemas, produce, consume.
`directory.py` knows which of several brokers serves a topic, and `fault_injection.py` carries out scripted faults.
"""
