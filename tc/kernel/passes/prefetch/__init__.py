"""Software prefetch: hints for lines that the hardware prefetcher does not foresee."""
