"""`perf`: how fast a broker, a network and this client are together. `perf.py` says what can be measured."""
