"""What rows of relative performance must have before anything is learnt from them."""

from __future__ import annotations

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.families.relative.rows import Rows


def check_rows(rows: Rows) -> None:
    """Raises UsageError where nothing can be learnt: no rows, one platform, no times."""
    if not len(rows):
        raise UsageError(
            "there are no rows to learn from",
            hint="an application can be left out only where there is another one",
        )
    if len(rows.platforms) < 2:
        raise UsageError(
            f"{rows.reference} is the only platform: there is nothing to compare it with",
            hint="give times on at least one other platform",
        )
    if not rows.counters:
        raise UsageError("the rows have no counters")
    lost = np.flatnonzero(~np.isfinite(rows.log_reference))
    if len(lost):
        row = int(lost[0])
        raise UsageError(
            f"{rows.applications[row]}/{rows.kernels[row]} ({rows.sizes[row]}) has no time on the "
            f"reference {rows.reference}",
            hint="leave the row out or measure it there",
        )
    if np.isinf(rows.log_seconds).any():
        raise UsageError("a time is zero or infinite", hint="write a missing time as NaN")
    others = np.delete(rows.log_seconds, rows.reference_column, axis=1)
    if not np.isfinite(others).any():
        raise UsageError("no row has a time on any platform but the reference")


def check_applications(rows: Rows, folds: int = 2) -> None:
    """Raises UsageError where there are fewer applications than ``folds``."""
    found = len(set(rows.applications))
    if found < folds:
        raise UsageError(
            f"{found} applications are fewer than the {folds} that can be left out in turn",
            hint="measure more applications",
        )
