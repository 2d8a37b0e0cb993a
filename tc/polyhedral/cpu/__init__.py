"""Processors: what is chosen for them, and why."""
