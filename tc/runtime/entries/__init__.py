"""Inline caches of one entry each, which serve calls that are like the last one."""
