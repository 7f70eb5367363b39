"""Widths of predicted training steps for families of models that were not measured.

Nothing tells at prediction time whether a model's family was measured, so these are served: they
hold for unseen models of measured families, too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document, read_json

WIDTHS = Path(__file__).with_name("step_widths.json")


class FamilyWidth(Document):
    """Of one device that was measured."""

    log_width: float = Field(gt=0)
    groups: int = Field(ge=1)
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Of families that the width is not from."""


class StepWidths(Document):
    """``step_widths.json``."""

    schema_: str = Field(default="berth.step-widths/1", alias="schema")
    command: str
    created: str
    split: str
    widths: dict[str, FamilyWidth]
    """By platform."""


@cache
def family_widths() -> dict[str, FamilyWidth]:
    """Half widths of 90 % intervals in log, by platform. Raises DocumentError."""
    return read_json(WIDTHS, StepWidths).widths
