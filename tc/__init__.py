"""Tensor Comprehensions: operators in index notation, interpreted and compiled."""
