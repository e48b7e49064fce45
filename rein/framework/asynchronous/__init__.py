"""Rollouts in another process, while this one learns."""
