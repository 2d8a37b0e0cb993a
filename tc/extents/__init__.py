"""Sizes that remember how they follow from the sizes of a call, and what was asked of them.

A *tracked* size stands for one number, its *hint*, and for its polynomial over the *dynamic* sizes,
those that vary from call to call. A compiler that runs on tracked sizes makes what it would make
of plain ones, and leaves a list of what it asked: at all sizes for which the answers are the same,
it would have made the same, with other numbers in it.
"""
