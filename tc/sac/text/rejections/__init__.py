"""Errors for what SaC has and this language has not (C27), for what other languages write, and for
slips: each with what serves instead.

A function named `refuse_...` raises where the cursor stands at something to be refused; the others
give the error for a place where the parser cannot go on.
"""

from tc.sac.text.rejections import expressions, loops, statements, unsupported

__all__ = ["expressions", "loops", "statements", "unsupported"]
