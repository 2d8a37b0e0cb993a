"""Kernels as Python for numba, and as functions that are traced into LLVM's language."""
