"""Tools to work on Rein; not part of the package."""
