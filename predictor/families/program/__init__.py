"""Family of programs with a measured profile: predicts from one run's counters on other platforms.

The predicted time is the time of a roofline model multiplied by a learnt correction.
"""

from __future__ import annotations

from berth.pilot.profile import Profile
from berth.predictor.core.family import FamilyEntry, load_from
from berth.predictor.core.workload import WHOLE_JOB, Workload, WorkloadKind, digest_of

_HERE = "berth.predictor.families.program"
FAMILY = FamilyEntry(
    "program",
    ("program",),
    load_from(f"{_HERE}.program_family", "ProgramFamily"),
    bundle_readers={"berth.bundle/1": f"{_HERE}.bundle"},
)


def _describe(profile: Profile) -> Workload:
    """Return the workload of a measured program; its amount of work is that of the measured run."""
    return Workload(
        "program", profile.name, digest_of(profile), profile.runs_on, WHOLE_JOB, profile
    )


KIND = WorkloadKind("program", Profile, _describe)
