"""Gradients of programs, as texts of the same language in gather form."""
