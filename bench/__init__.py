"""Timings of tc; never part of the test run."""
