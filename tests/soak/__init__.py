"""Processes, threads and forks that call and compile at random on one directory of kernels."""
