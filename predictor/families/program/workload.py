"""A Profile as a Workload: a program that was measured once."""

from __future__ import annotations

from berth.pilot.profile import Profile
from berth.predictor.core.workload import WHOLE_JOB, Kind, Workload, digest_of


def describe(profile: Profile) -> Workload:
    """Return the workload; its amount is the run that was measured."""
    return Workload(
        "program", profile.name, digest_of(profile), profile.runs_on, WHOLE_JOB, profile
    )


KIND = Kind("program", Profile, describe)
