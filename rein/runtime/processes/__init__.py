"""Worker processes: how they are started, what is sent to them, and how they end with the process that uses them.

Nothing here loads torch, so that workers that need none of it start quickly.
"""
