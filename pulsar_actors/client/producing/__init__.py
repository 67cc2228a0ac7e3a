"""Producers: what users hold, and the way of a message from there to the actor. Sets of them are in `client/sets`."""
