"""Suites that others wrote, beside other libraries: `python -m bench.suites SOURCE...`."""
