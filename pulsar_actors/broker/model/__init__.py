"""The broker's model: what it stores, and what it decides. No sockets, no wire.

Start with `cluster.py`. A cluster has namespaces (`namespace.py`), a namespace has topics (`topic.py`), and a topic has
a managed ledger with its entries, producers and subscriptions. A subscription has a cursor, consumers and a dispatcher,
which decides who gets what. The model calls clients through the interfaces in `interfaces.py`.
"""
