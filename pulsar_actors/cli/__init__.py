"""The commands of `python -m pulsar_actors`."""
