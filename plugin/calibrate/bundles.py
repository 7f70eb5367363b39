"""Which bundles are a site's own, and which of them calibration made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.predictor.core.bundle import schema_of_bundle
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA, DEFAULT_BUNDLE

BUNDLE_FOLDER = "bundles"
CALIBRATED = "calibrated-"
"""How folders of bundles that calibration made begin."""


def is_ours(folder: Path) -> bool:
    """Whether calibration made this bundle."""
    return folder.parent.name == BUNDLE_FOLDER and folder.name.startswith(CALIBRATED)


def program_bundle(bundles: Sequence[Path]) -> Path:
    """The bundle of programs among a site's own, else the shipped one."""
    for folder in bundles:
        try:
            if schema_of_bundle(folder) == BUNDLE_SCHEMA:
                return folder
        except UsageError:
            continue
    return DEFAULT_BUNDLE
