"""The broker's model: its data and its decisions, without sockets and without the wire protocol.

Start with `cluster.py`. A cluster has namespaces (`namespace.py`), a namespace has topics (`topic.py`), and a topic has
a managed ledger with its entries, producers and subscriptions. A subscription has a cursor, consumers, and a
dispatcher, which decides which consumer gets an entry. The model calls clients through the interfaces in
`interfaces.py`.
"""
