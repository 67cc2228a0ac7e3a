"""Consumers and readers: what users hold, and the way of a message to there, of news, and of an acknowledgement back.

Sets of them are in `client/sets`.
"""
