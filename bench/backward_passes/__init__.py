"""Backward passes of layers: programs, their gradients, and the same in torch and JAX."""
