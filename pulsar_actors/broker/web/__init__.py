"""The embedded broker's HTTP side: lookups for `http://` clients, and the admin interface that tests and tools need.

From the socket up: `connection.py` owns one connection; `requests.py` cuts its stream into requests, with `head.py` and
`chunked.py`; `routes.py` finds who answers; `responses.py` writes the answer. What is answered is in one file for each
kind of thing: `brokers.py`, `lookups.py`, `tenants.py`, `namespaces.py`, `topics.py` and so on, each with its table of
routes. `server.py` puts them together.

Paths, bodies, field names and status codes are Pulsar's own, so that a script written against this broker works on a
real one. Errors are JSON with a `reason`, also where Pulsar's web server would send a page of HTML.
"""
