"""A machine for PTX: what NVRTC makes of a text in CUDA C++ is run on numpy, without a GPU.

`parse` reads the functions of a text, `machine` runs their blocks, the threads of a block as lanes
of arrays, smallest program counter first; `arithmetic`, `warps` and `memory` have what instructions
mean. Instructions that texts of tc do not need are not known: the error names them.
"""
