"""Shaped programs with fewer operations, or with more that is parallel."""
