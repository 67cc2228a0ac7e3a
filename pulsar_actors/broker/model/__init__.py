"""What a broker knows and decides, without the wire: see `cluster.py`, where everything hangs together."""
