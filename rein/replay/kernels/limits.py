"""Numbers that the loops and those who call them share."""

MAX_PENDING = 8192
"""Leaves of a sum tree that are remembered as written; after more of them the whole tree is recomputed at once."""
