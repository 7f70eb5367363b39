"""What a family of relative performance is to training and evaluation."""

from __future__ import annotations

import json
from typing import Protocol

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows


class Fitted(Protocol):
    """A trained model of one family."""

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms of the training rows, finite everywhere.

        ``rows`` holds the reference's times and, where somebody probed, some others; a platform
        that ``rows`` has a time of is answered with that time.
        """
        ...


class Family(Protocol):
    """A way to learn times on many platforms from counters and the reference's time."""

    @property
    def name(self) -> str:
        """In tables."""
        ...

    @property
    def what(self) -> str:
        """One line for a reader: inputs, model, source."""
        ...

    def fit(self, rows: Rows, seed: int) -> Fitted:
        """Learn from all rows given, labels missing allowed; choices (if any) by folds inside.

        The same rows and seed give the same model. Raises UsageError where nothing can be learnt.
        """
        ...


def resume_key(family: Family) -> tuple[str, str, str]:
    """Name, settings, and which platforms it takes for one kind: a part of a key of ``Resume``."""
    kinds = dict(getattr(family, "kinds", {}))
    return family.name, family.what, json.dumps(kinds, sort_keys=True)
