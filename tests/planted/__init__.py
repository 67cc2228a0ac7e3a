"""Planted bugs: how many seeds the simulation takes to catch each. `python -m tests.planted --help`."""
