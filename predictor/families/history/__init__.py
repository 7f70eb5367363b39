"""Programs known from past jobs only: what was measured where they ran."""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

FAMILY = FamilyEntry(
    "history", ("history",), load_from(f"{__name__}.history_family", "HistoryFamily")
)
