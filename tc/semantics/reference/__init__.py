"""The reference interpreter, and how far legal results may differ from it."""
