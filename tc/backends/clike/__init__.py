"""Kernels as C, and what other languages like it share: texts, and the compiler that runs them."""
