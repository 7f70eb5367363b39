"""``berth train --task programs --adapt``: a platform learnt from profiles measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.train.training_input import command_line, require_training
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE
from berth.predictor.hardware import platforms as known


def adapt_bundle(
    files: Sequence[Path], source: Path, name: str, out: Path, *, folder: Path | None, seed: int
) -> tuple[str, dict[str, object]]:
    """The bundle in ``source`` (``default``: the shipped one) with platform ``name`` labelled.

    What was made, as a sentence and as plain data.
    """
    require_training("training")
    from berth.predictor.learning.programs.adapt import adapt  # noqa: PLC0415 - needs the extra
    from berth.predictor.learning.programs.columns import read_profiles  # noqa: PLC0415

    if not files:
        raise UsageError(
            "no PROFILES are given",
            hint="profiles of the same workloads on the reference and on the new platform",
        )
    platforms = known.load(folder)
    profiles = [
        profile
        for path in files
        for profile in (
            read_profiles(path) if path.suffix == ".jsonl" else [read_json(path, Profile)]
        )
    ]
    manifest = adapt(
        DEFAULT_BUNDLE if source == Path("default") else source,
        profiles,
        known.get(name, platforms),
        platforms,
        out,
        seed=seed,
        command=command_line(),
    )
    entry = next(e for e in manifest.labelled if e.platform == name)
    text = f"{manifest.id}: {name} by {entry.rows} workloads, written to {out}"
    return text, {"bundle": manifest.id, "rows": entry.rows, "platform": name}
