"""Other people's names over ours, for scripts and confs that were written for another library."""
