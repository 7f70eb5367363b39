"""``berth train``: adds a platform to a bundle by a site's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from berth.pilot.documents import read_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.options import PATH, answer, json_option
from berth.plugin.cli.train.training_input import command_line, require_training
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE
from berth.predictor.hardware import platforms as catalogue
from berth.predictor.hardware import platforms as known

TASKS = ("programs", "models")


@click.command(
    epilog="Example: berth train node1.jsonl node2.jsonl --adapt default --platform node2 --out b"
)
@click.argument("profiles", nargs=-1, type=PATH)
@click.option(
    "--task",
    type=click.Choice(TASKS),
    default="programs",
    help="What PROFILES are: programs, or deep-learning models (models), that ran on --platform.",
)
@click.option(
    "--adapt",
    type=PATH,
    metavar="BUNDLE",
    help="Add --platform to this bundle (`default`: the shipped one) by the runs of PROFILES.",
)
@click.option("--platform", help="With --adapt: the new platform.")
@click.option("--out", type=PATH, required=True, help="Folder of the new bundle.")
@json_option
def train(
    *,
    profiles: tuple[Path, ...],
    task: str,
    adapt: Path | None,
    platform: str | None,
    out: Path,
    json_: bool,
) -> None:
    """Learn from PROFILES, the site's own runs.

    PROFILES are of the same workloads on a reference and on the new platform (with --task models:
    the .jsonl of `berth pilot dl` and the .onnx files that it measured).
    """
    if (adapt is None) != (platform is None):
        raise UsageError("--adapt BUNDLE and --platform NEW go together")
    if adapt is None or platform is None:
        raise UsageError(
            f"--task {task} needs --adapt BUNDLE and --platform NEW",
            hint="--adapt default starts from the bundle that comes with Berth; "
            "`python -m lab` trains bundles from public data",
        )
    if task == TASKS[0]:
        text, summary = adapt_bundle(profiles, adapt, platform, out)
    else:
        text, summary = adapt_model(profiles, adapt, platform, out)
    answer(text, {**summary, "folder": str(out)}, json_=json_)


def adapt_bundle(
    files: Sequence[Path], source: Path, name: str, out: Path
) -> tuple[str, dict[str, object]]:
    """Label platform ``name`` in the bundle of ``source`` (``default``: the shipped one).

    What was made, as a sentence and as plain data.
    """
    require_training("training")
    from berth.pilot.profile import read_profiles  # noqa: PLC0415
    from berth.predictor.learning.programs.adapt import adapt  # noqa: PLC0415 - needs the extra

    if not files:
        raise UsageError(
            "no PROFILES are given",
            hint="profiles of the same workloads on the reference and on the new platform",
        )
    platforms = known.load()
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
        command=command_line(),
    )
    entry = next(e for e in manifest.labelled if e.platform == name)
    text = f"{manifest.id}: {name} by {entry.rows} workloads, written to {out}"
    return text, {"bundle": manifest.id, "rows": entry.rows, "platform": name}


def adapt_model(
    files: Sequence[Path], source: Path, name: str, out: Path
) -> tuple[str, dict[str, object]]:
    """Place platform ``name`` in the bundle of ``source`` by runs of ``berth pilot dl``.

    What was made, as text and as plain data.
    """
    require_training("training")
    from berth.pilot.dl.campaign import read_runs  # noqa: PLC0415
    from berth.predictor.families.graph.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.learning.graphs import adapt  # noqa: PLC0415

    run_files = [path for path in files if path.suffix == ".jsonl"]
    models = [path for path in files if path.suffix == ".onnx"]
    stray = next((path for path in files if path not in run_files and path not in models), None)
    if stray is not None or not run_files:
        raise UsageError(
            "no file of runs is given" if stray is None else f"{stray} is neither runs nor a model",
            hint="give the .jsonl of `berth pilot dl` and the .onnx files that it measured",
        )
    known = catalogue.load()
    platform = catalogue.get(name, known)
    every = [run for path in run_files for run in read_runs(path)]
    runs = [run for run in every if run.platform == name]
    if not runs:
        seen = ", ".join(sorted({run.platform for run in every})) or "none"
        raise UsageError(f"no run is of platform {name!r}", hint=f"the runs are of: {seen}")
    samples = adapt.samples_of(runs, adapt.from_files(models), platform, known)
    start = DEFAULT_TRANSFER if source == Path("default") else source
    command = (
        f"berth train --task models --adapt {source} --platform {name} "
        f"{' '.join(map(str, run_files))} --out {out}, with {len(models)} ONNX files"
    )
    adapted = adapt.adapt(start, platform, samples, out, command=command)
    learnt = f"{adapted.samples} runs of {adapted.models} models"
    lines = [f"{adapted.manifest.id}: {name} by {learnt}, written to {out}"]
    errors = {}
    for words, off in (("none of them", adapted.before), ("those of other models", adapted.after)):
        error = np.expm1(off)
        errors[words] = float(np.median(error))
        lines.append(
            f"  each run predicted from {words}: median error {errors[words]:.0%}, "
            f"{float((error <= 0.1).mean()):.0%} within 10 %"
        )
    factor = float(np.exp(adapted.log_width))
    lines.append(f"  90 % interval: a factor of {factor:.2f} either way")
    return "\n".join(lines), {
        "bundle": adapted.manifest.id,
        "rows": adapted.samples,
        "platform": name,
        "median_error_before": errors["none of them"],
        "median_error": errors["those of other models"],
        "interval_factor": factor,
    }
