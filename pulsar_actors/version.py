"""The version of this package. Brokers are told it, too."""

__version__ = "0.1.0.dev0"
