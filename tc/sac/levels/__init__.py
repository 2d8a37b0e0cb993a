"""What is known of an expression at which level (C22): its value, its shape, its rank; types,
bounds and demands.

`expressions.evaluate` gives the value of an expression in an environment as a tree of `Value`s, of
which each part (`type`, `rank`, `shape`, `value`) is computed when it is asked for, and then only
from what scheme S or D needs. Scheme S is `value.shape`, scheme D is `value.rank`.
"""
