"""A page that shows the state machines of a client or an embedded broker at work.

`client.inspect()` and `EmbeddedBroker.inspect()` serve it. `snapshot.py` is what it shows, `server.py` serves it, and
the folder `page` has what the browser runs.
"""
