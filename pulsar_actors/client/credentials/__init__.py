"""Ways of saying who one is, each behind a class of `authentication.py`, or a name of a configuration file."""
