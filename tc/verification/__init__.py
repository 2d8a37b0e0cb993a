"""Whether a kernel from anywhere computes what a text says: `tc.verify`."""
