"""Stores of neighbouring elements put together: vectors of which each writes only some."""
