"""One conf per (algorithm, task): what `rein list zoo` shows and `rein verify` trains."""
