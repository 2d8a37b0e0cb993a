"""The autotuner: which plan is fastest for a program at given sizes, found by trying, and kept."""
