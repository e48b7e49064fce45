"""Checks of the structure of the code."""
