"""Trackers: plain classes that count, order and remember for the machines. They know no chart; each is tested alone."""
