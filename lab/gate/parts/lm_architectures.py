"""Counts of language models beside transformers' classes and beside models' cards."""

from __future__ import annotations

from collections import Counter

from lab.gate.part import Work
from lab.llm.lm_counts import (
    REFUSED,
    RIGHT,
    WRONG,
    causal_classes,
    form_verdicts,
    quiet,
    verdict,
)


def figures(work: Work) -> dict[str, float]:
    """Return how many classes and published files are counted right, refused and wrong."""
    quiet()
    classes: Counter[str] = Counter()
    for model_type in causal_classes():
        classes[verdict(model_type).verdict] += 1
        work.advance()
    forms = Counter(each.verdict for each in form_verdicts())
    names = {"right": RIGHT, "refused": REFUSED, "wrong": WRONG}
    return {
        f"{source}.{name}": float(counted[kind])
        for source, counted in (("classes", classes), ("forms", forms))
        for name, kind in names.items()
    }
