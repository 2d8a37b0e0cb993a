"""Digests of what is generated, to hold a reorganisation against: see `tests.record.__main__`."""
