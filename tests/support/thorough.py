"""How many examples a property is tried on: all of them in .ci/run, a quarter in `make test`."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("BERTH_THOROUGH"))
"""Set by .ci/run."""


def examples(thorough: int) -> int:
    """``thorough`` in a thorough run; else a quarter of it, but not under 20."""
    return thorough if THOROUGH else min(thorough, max(20, thorough // 4))
