"""Passes from kernels to kernels; `pipeline` has the list of them for each target."""
