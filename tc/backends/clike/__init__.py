"""Kernels as C: the parts that languages like C share, the texts of C, and the compiler that runs
them."""
