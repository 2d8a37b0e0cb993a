"""Checking: names are resolved, and calls of other defs inlined."""
