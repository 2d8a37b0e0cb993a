"""The programs of `bench.broad`: a text, sizes that a seed draws, and what others run for it."""
