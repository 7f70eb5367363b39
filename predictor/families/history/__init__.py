"""Programs known from past jobs only: what was measured where they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.history.history_family import HistoryFamily


def _load(_: Bundles) -> HistoryFamily:
    from berth.predictor.families.history.history_family import HistoryFamily  # noqa: PLC0415

    return HistoryFamily()


FAMILY = FamilyEntry("history", ("history",), _load)
