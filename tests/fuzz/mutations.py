"""Ways to break one rule of a legal program, all of them."""

from __future__ import annotations

from tests.fuzz import mutations_of_ranges, mutations_of_text
from tests.fuzz.mutation_table import MUTATIONS, Mutation

__all__ = ["MUTATIONS", "Mutation", "mutations_of_ranges", "mutations_of_text"]
