"""``berth train --adapt``: a platform labelled in a bundle by profiles measured on it."""

from __future__ import annotations

from pathlib import Path

import click

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.tasks.asked import Asked
from berth.plugin.cli.training_input import command_line, require_training
from berth.predictor import platforms as known
from berth.predictor.bundle import DEFAULT_BUNDLE


def adapt_bundle(asked: Asked, source: Path, name: str) -> None:
    """The bundle in ``source`` (``default``: the shipped one) with platform ``name`` labelled."""
    require_training("training")
    from berth.predictor.training.kernels.adapt import adapt  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kernels.examples import read_profiles  # noqa: PLC0415

    if not asked.profiles:
        raise UsageError(
            "no PROFILES are given",
            hint="profiles of the same workloads on the reference and on the new platform",
        )
    platforms = known.load(asked.folder)
    profiles = [
        profile
        for path in asked.profiles
        for profile in (
            read_profiles(path) if path.suffix == ".jsonl" else [read_json(path, Profile)]
        )
    ]
    manifest = adapt(
        DEFAULT_BUNDLE if source == Path("default") else source,
        profiles,
        known.get(name, platforms),
        platforms,
        asked.bundle,
        seed=asked.seed,
        command=command_line(),
    )
    entry = next(e for e in manifest.labelled if e.platform == name)
    click.echo(f"{manifest.id}: {name} by {entry.rows} workloads, written to {asked.bundle}")
