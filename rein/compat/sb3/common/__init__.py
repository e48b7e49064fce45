"""Modules under the names that Stable-Baselines3 gives them."""
