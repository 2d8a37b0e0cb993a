"""The process in which cases run: one case in JSON per line of its input, one verdict per line of
its output. It may die: who started it has the case on record.

`python -m tests.fuzz.worker TREE` takes `tc` from a tree, and all else from this one.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any


def take_tc_from(tree: str) -> None:
    """Imports `tc` from there: what it imports later comes from there too."""
    sys.path.insert(0, tree)
    try:
        import tc

        assert tc.__path__[0].startswith(tree), tc.__path__
    finally:
        sys.path.remove(tree)


def main(tree: str) -> None:
    take_tc_from(tree)
    import tc
    from tests.fuzz.execute import Run, judge, judge_run
    from tests.fuzz.model import Case
    from tests.fuzz.plans.judge import draw, judge_plan

    plans = {"draw a plan": draw, "judge a plan": judge_plan}
    tc.cache.disable()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print is no answer
    for line in sys.stdin:
        kind, value = json.loads(line)
        verdict: Any
        if kind == "case":
            verdict = judge(Case.from_json(json.dumps(value)))
        elif kind in plans:
            verdict = plans[kind](**value)
        else:
            verdict = judge_run(Run(**value))
        answers.write(json.dumps(asdict(verdict)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
