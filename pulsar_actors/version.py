"""The version of this package, for whoever asks, brokers included."""

__version__ = "0.1.0.dev0"
