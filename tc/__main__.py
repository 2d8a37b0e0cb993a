"""`python -m tc`: the command line (`tc.cli`)."""

from __future__ import annotations

import sys

from tc.cli import main

if __name__ == "__main__":
    sys.exit(main())
