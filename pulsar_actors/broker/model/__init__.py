"""What a broker knows and decides, without the wire.

`cluster.py` has the namespaces, `namespace.py` its topics, and `topic.py` what one topic has: the entries in `log.py`,
`producers.py`, and subscriptions. A `subscription.py` is a `cursor.py`, consumers, and one of the dispatchers, which
decides who gets what: `single_dispatcher.py`, `shared_dispatcher.py` or `key_shared_dispatcher.py`. The model reaches
those who are connected through `links.py`, and refuses with `refusal.py`.
"""
