"""Kernels and subtly wrong variants of them: what `tc.verify` has to tell apart."""

from tests.verification.mutants_places import PLACES
from tests.verification.mutants_products import PRODUCTS
from tests.verification.mutants_record import KINDS, Mutant, Mutated
from tests.verification.mutants_rows import ROWS
from tests.verification.mutants_windows import WINDOWS

MUTATED: tuple[Mutated, ...] = PRODUCTS + WINDOWS + ROWS + PLACES

__all__ = ["KINDS", "MUTATED", "Mutant", "Mutated"]
