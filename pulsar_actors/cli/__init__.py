"""The commands behind `python -m pulsar_actors`."""
