"""Programs, by the profile of one run: a roofline's time and a learnt residual."""

from __future__ import annotations

from berth.pilot.profile import Profile
from berth.predictor.core.family import FamilyEntry, load_from
from berth.predictor.core.workload import WHOLE_JOB, Kind, Workload, digest_of

_HERE = "berth.predictor.families.program"
FAMILY = FamilyEntry(
    "program",
    ("program",),
    load_from(f"{_HERE}.program_family", "ProgramFamily"),
    bundle_readers={"berth.bundle/1": f"{_HERE}.bundle"},
)


def _describe(profile: Profile) -> Workload:
    """Return the workload of a program that was measured once; its amount is that run."""
    return Workload(
        "program", profile.name, digest_of(profile), profile.runs_on, WHOLE_JOB, profile
    )


KIND = Kind("program", Profile, _describe)
