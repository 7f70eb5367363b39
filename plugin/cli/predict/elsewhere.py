"""Profiles of the same program on other platforms: read, checked, and what a probe would buy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Interval, Prediction
from berth.predictor.families.program.estimate import LEAST_LOG_WIDTH

if TYPE_CHECKING:
    from berth.predictor.families.relative.joint import Advice, Probe


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A run of the same program on another platform."""

    platform: str
    units: int
    """Cores (CPU) or GPUs that it used."""
    runtime_s: Interval


def read_elsewhere(
    measured: Profile,
    named: Sequence[str],
    others: Sequence[Path],
    platforms: Mapping[str, Platform | None],
    stored: Iterable[Profile] = (),
) -> dict[str, Elsewhere]:
    """Runs by platform: of ``PLATFORM=FILE`` words, then of files, then of stored profiles.

    ``platforms``: None for one that only a name is known of. Raises UsageError for a word of
    another form, a platform that is not known, that of ``measured`` itself or one given twice, a
    run that did not complete, or another problem size.
    """
    found: dict[str, Elsewhere] = {}
    for word in named:
        name, equals, path = word.partition("=")
        if not (equals and name and path):
            raise UsageError(f"--known {word!r} is not PLATFORM=PROFILE")
        profile = read_json(Path(path), Profile)
        if profile.platform in platforms and profile.platform != name:
            raise UsageError(f"{path} was measured on {profile.platform!r}, not on {name!r}")
        _add(found, measured, profile, name, platforms)
    for other in others:
        profile = read_json(other, Profile)
        _add(found, measured, profile, profile.platform, platforms)
    for profile in stored:
        same = profile.workload == measured.workload and profile.platform != measured.platform
        usable = profile.runtime is not None and profile.complete and profile.exit_status == 0
        if same and usable and profile.platform in platforms and profile.platform not in found:
            _add(found, measured, profile, profile.platform, platforms)
    return found


def advice_for(predictions: Sequence[Prediction]) -> Advice:
    """Which of the predicted platforms are best to probe."""
    # ruff: noqa: PLC0415 - most predictions are asked for without advice
    from berth.predictor.families.relative.joint import advise, joint_of

    return advise(joint_of(predictions))


def in_words(advice: Advice) -> str:
    """One sentence: where to run, and how far the expected regret falls."""
    if not advice.worthwhile or advice.one is None:
        return (
            f"no probe is worth a run: {advice.pick} is expected within a factor "
            f"{advice.regret:.2f} of the best"
        )
    text = (
        f"run `berth pilot run` on {advice.one.platforms[0]}: expected regret falls from "
        f"{advice.regret:.2f} to {advice.one.regret:.2f}"
    )
    if advice.two is not None and advice.two.regret < advice.one.regret - 0.005:
        both = " and ".join(advice.two.platforms)
        text += f" (on {both}: to {advice.two.regret:.2f})"
    return text


def as_document(advice: Advice) -> dict[str, Any]:
    """For JSON."""
    return {
        "pick": advice.pick,
        "expected_regret": advice.regret,
        "worthwhile": advice.worthwhile,
        "one": _probe(advice.one),
        "two": _probe(advice.two),
    }


def _probe(probe: Probe | None) -> dict[str, Any] | None:
    if probe is None:
        return None
    return {"platforms": list(probe.platforms), "expected_regret": probe.regret}


def _add(
    found: dict[str, Elsewhere],
    measured: Profile,
    profile: Profile,
    name: str,
    platforms: Mapping[str, Platform | None],
) -> None:
    if name not in platforms:
        raise UsageError(
            f"profile {profile.name!r} was measured on {name!r}, which is not a known platform",
            hint="`berth site platform list` shows them; `berth site platform add` adds one",
        )
    if name == measured.platform:
        raise UsageError(f"{measured.name!r} was itself measured on {name!r}")
    if name in found:
        raise UsageError(f"two profiles are of {name!r}")
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {name!r} did not complete")
    sizes = (profile.workload.size, measured.workload.size)
    if None not in sizes and sizes[0] != sizes[1]:
        raise UsageError(
            f"{profile.name!r} ran size {sizes[0]:g} on {name!r}, not {sizes[1]:g}",
            hint="a probe runs the same problem as the first pilot",
        )
    runtime = profile.runtime
    width = max(LEAST_LOG_WIDTH, math.log1p(2 * runtime.spread_s / runtime.median_s))
    runs_on, platform = profile.runs_on, platforms[name]
    on_gpu = runs_on.gpus > 0 if platform is None else platform.is_gpu
    units = max(1, runs_on.gpus) if on_gpu else runs_on.threads * runs_on.ranks
    found[name] = Elsewhere(name, units, around(runtime.median_s, width))
