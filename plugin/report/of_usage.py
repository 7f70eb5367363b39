"""Reports what a job used: each value by its best source, with what other sources say."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.usage.record import VALUES, Usage
from berth.plugin.history.disagreements import by_trust, value_text
from berth.plugin.report.parts import Part


def usage_part(usages: Sequence[Usage]) -> Part:
    """Return the report section on what was recorded of one job."""
    facts = []
    for name in VALUES:
        recorded = by_trust(usages, name)
        if recorded:
            best, *others = recorded
            also = "".join(f"; {other.source}: {value_text(name, other.value)}" for other in others)
            text = f"{value_text(name, best.value)} ({best.source}{also})"
            facts.append((name.replace("_", " "), text))
    lacks = [f"{usage.source} lacks: {usage.lacks}" for usage in usages if usage.lacks]
    return Part("What it used", facts=facts, notes=lacks)
