"""The long form of the fault tests: many faults of each kind, and a page of what got through."""
