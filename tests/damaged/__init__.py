"""Files that tc reads, with one byte changed, cut out or put in: what comes of them.

Each kind of file has a class in `kinds` that makes whole ones and looks at a damaged one: it is
read as what it says, or refused by an error of tc's own. A crash, a wait without end, another
exception and a wrong number are findings. `tests/test_damaged_files.py` draws some cases of each
kind, `python -m tests.damaged` as many as there is time for.
"""
