"""The numbers of a question put in the places of its formula's variables: worked solutions that need no model.

Where a question names its formula ("Formula: Treynor Ratio = (R_p - R_f) / β_p") and its answer is known, an assignment
of its numbers that gives the answer is how it is done. Which number is meant by which variable is not read but tried
out, in the order in which the numbers stand; only the known answer tells that it was the right one.
"""

import re
from collections.abc import Iterator
from itertools import islice, permutations

_FORMULA = re.compile(
    r"^[^\S\n]*(?:formula|công thức)\s*:\s*[^=\n]+=(?P<formula>[^=\n]+)$", re.IGNORECASE | re.MULTILINE
)
# "A x B" multiplies.
_TIMES = re.compile(r"(?<=[\w)\]]) [xX] (?=[\w(\[])")
_VARIABLE = re.compile(r"[^\W\d][\w'’&]*(?: [^\W\d][\w'’&]*)*")
# Not to be taken for variables, nor for something to multiply with.
_FUNCTION = re.compile(r"(?<!\w)(?:ln|log|exp|sqrt|max|min|sum|avg|[NE])\s*\(|[∑Σ√|…]|\.\.")
_NUMBER = re.compile(
    r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?:\s?%|\s(?:hundred|thousand|million|billion|trillion|nghìn|triệu|tỉ|tỷ)\b)?"
)
_MOST_VARIABLES = 6
_MOST_TRIED = 5040


def substitutions(question: str) -> Iterator[str]:
    """Expressions made of the question's formula and its numbers; none where it names no formula that can be read."""
    found = _FORMULA.search(question)
    if found is None:
        return
    formula = _TIMES.sub(" × ", found["formula"].strip().rstrip(".,;"))
    variables = list(dict.fromkeys(_VARIABLE.findall(formula)))
    numbers = _NUMBER.findall(question[: found.start()] + question[found.end() :])
    if not 0 < len(variables) <= min(_MOST_VARIABLES, len(numbers)) or _FUNCTION.search(formula):
        return
    made: set[str] = set()
    for chosen in islice(permutations(numbers, len(variables)), _MOST_TRIED):
        value_of = dict(zip(variables, chosen, strict=True))
        expression = _VARIABLE.sub(lambda name, value_of=value_of: value_of[name.group()], formula)
        if expression not in made:
            made.add(expression)
            yield expression
