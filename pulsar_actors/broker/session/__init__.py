"""Connections of clients: commands in, calls of the model, answers out.

`listeners.py` accepts a connection, `session.py` is one connection, and `lifecycle.py` decides which clients are
accepted. `handlers.py` is the table of commands; each family of commands has a file: connect, lookup, schemas, produce,
consume. `directory.py` finds the broker that serves a topic, and `fault_injection.py` performs scripted faults.
"""
