"""Checking: what the names of a text mean, and its calls inlined."""
