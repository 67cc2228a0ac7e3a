"""The broker's HTTP side: lookups for `http://` clients, and the part of Pulsar's admin API that tests and tools need.

`http.py` is one connection, `server.py` finds the answer to a request, and `calls.py` has the routes and what handlers
share. Each kind of resource has a file of handlers with its table of routes: lookups, namespaces, topics,
subscriptions, schemas.

Paths, bodies, field names and status codes are Pulsar's own, so that a script written against this broker works on a
real one. Errors are JSON with a `reason`, even if Pulsar's web server sends a page of HTML.
"""
