"""Updates that are compiled to machine code; the first iterations write no summaries, which would run without it."""

from rein.config import config

config("TrainerConfig", compile=True, summarize_first_interval=False)
