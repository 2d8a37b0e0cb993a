"""The order of statements: which share loops, and in which order loops run."""
