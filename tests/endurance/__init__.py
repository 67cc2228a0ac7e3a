"""Hours of load, many threads and many cycles: what must not grow does not. `python -m tests.endurance --help`."""
