"""Utilities shared by the tests: comparison under bounds, strategies, the table of programs."""
