"""Algorithms, by family; families do not import each other."""
