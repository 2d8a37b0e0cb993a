"""Passes from kernels to kernels; `pass_list` has the list of them for each target."""
