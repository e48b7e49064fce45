"""How to build each algorithm, one file for each package of algorithms.

A file here is found by itself. It may define

- `CASES: dict[str, Case]`: algorithms that act (and collect, and learn) in the tiny world;
- `PARTS: dict[str, Part]`: algorithms that learn from batches and are not part of any case;
- `NOT_BUILT: dict[type, str]`: classes that are bases only, or learn nothing, with the reason.
"""
