"""Programs, by the profile of one run: a roofline's time and a learnt residual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.program.program_family import ProgramFamily


def _load(bundles: Bundles) -> ProgramFamily:
    from berth.predictor.families.program.program_family import ProgramFamily  # noqa: PLC0415 - when asked

    return ProgramFamily.load(bundles)


FAMILY = FamilyEntry(
    "program",
    ("program",),
    _load,
    bundle_readers={"berth.bundle/1": "berth.predictor.families.program.bundle"},
)
