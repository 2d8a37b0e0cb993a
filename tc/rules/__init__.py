"""The rules of the language by name: T text, E elements, Y types, N names, R reductions, G ranges,
P in place, W instances, S places, V several targets, D gradients, C SaC's tensor comprehensions.

Errors cite them; `tc explain G5` prints one, and the page spec/rules.md, made from here, has all.

>>> print(RULES["R2"].title)
Starting at the identity
"""

from __future__ import annotations

from tc.rules import domains, gradients, names, places, ranges, reductions, sac, text, types
from tc.rules.rule import PAGES, Rule, filled

__all__ = ["PAGES", "RULES", "Rule", "page"]

RULES = {
    rule.name: rule
    for rules in (
        text.RULES,
        types.RULES,
        names.RULES,
        reductions.RULES,
        ranges.RULES,
        domains.RULES,
        places.RULES,
        gradients.RULES,
        sac.RULES,
    )
    for rule in rules
}

HEAD = """\
# All rules

Each rule of the language in a few words, with an example. Errors cite rules by name, and in a
shell `tc explain G5` prints the rule G5. A link to a rule is `rules.md#G5`, whatever its title.
This page is made from `tc/rules/` (`make accept`); the page named with a rule tells more.

```python
>>> import warnings
>>> import numpy as np
>>> import tc
>>> import tc.sac

```
"""


def page() -> str:
    """The text of spec/rules.md."""
    parts = [HEAD]
    for rule in RULES.values():
        parts.append(
            f'<a id="{rule.name}"></a>\n\n## {rule.name} {rule.title}\n\n'
            f"{filled(rule.text)} See [{rule.page}]({rule.page}).\n\n"
            f"```python\n{rule.example}\n\n```\n"
        )
    return "\n".join(parts)
