"""The version of Rein, where anything may read it."""

__version__ = "0.1.0"
