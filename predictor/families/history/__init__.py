"""Family of programs without a pilot run: predictions from past jobs on the platforms where they
ran."""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

FAMILY = FamilyEntry(
    "history", ("history",), load_from(f"{__name__}.history_family", "HistoryFamily")
)
