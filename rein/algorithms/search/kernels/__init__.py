"""Compiled loops over search trees in arrays; `rein.algorithms.search.compiled_tree` says what the arrays hold.

Each tree is handled by itself, one after the other, so that what it needs stays in the cache. The modules are imported at the
first search, because numba takes long to import.
"""
