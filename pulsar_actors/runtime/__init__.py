"""Actors, loops, sockets and timers: the only threads, clocks and sockets of the client."""
