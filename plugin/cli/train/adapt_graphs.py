"""``berth train --task models --adapt``: a site's own platform for the latency of models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.cli.train.training_input import require_training
from berth.predictor.hardware import platforms as catalogue


def adapt_model(
    files: Sequence[Path], source: Path, name: str, out: Path, *, folder: Path | None
) -> tuple[str, dict[str, object]]:
    """The bundle in ``source`` with platform ``name`` placed by runs of ``berth pilot dl``.

    What was made, as text and as plain data.
    """
    require_training("training")
    from berth.pilot.dl.campaign import read_runs  # noqa: PLC0415
    from berth.predictor.families.graph.latency.transfer.bundle import DEFAULT_TRANSFER  # noqa: PLC0415
    from berth.predictor.learning.graphs import adapt  # noqa: PLC0415

    kept = [path for path in files if path.suffix == ".jsonl"]
    models = [path for path in files if path.suffix == ".onnx"]
    stray = next((path for path in files if path not in kept and path not in models), None)
    if stray is not None or not kept:
        raise UsageError(
            "no file of runs is given" if stray is None else f"{stray} is neither runs nor a model",
            hint="give the .jsonl of `berth pilot dl` and the .onnx files that it measured",
        )
    known = catalogue.load(folder)
    platform = catalogue.get(name, known)
    every = [run for path in kept for run in read_runs(path)]
    runs = [run for run in every if run.platform == name]
    if not runs:
        seen = ", ".join(sorted({run.platform for run in every})) or "none"
        raise UsageError(f"no run is of platform {name!r}", hint=f"the runs are of: {seen}")
    samples = adapt.samples_of(runs, adapt.from_files(models), platform, known)
    start = DEFAULT_TRANSFER if source == Path("default") else source
    command = (
        f"berth train --task models --adapt {source} --platform {name} "
        f"{' '.join(map(str, kept))} --out {out}, with {len(models)} ONNX files"
    )
    found = adapt.adapt(start, platform, samples, out, command=command)
    learnt = f"{found.samples} runs of {found.models} models"
    lines = [f"{found.manifest.id}: {name} by {learnt}, written to {out}"]
    errors = {}
    for words, off in (("none of them", found.before), ("those of other models", found.after)):
        error = np.expm1(off)
        errors[words] = float(np.median(error))
        lines.append(
            f"  each run predicted from {words}: median error {errors[words]:.0%}, "
            f"{float((error <= 0.1).mean()):.0%} within 10 %"
        )
    factor = float(np.exp(found.log_width))
    lines.append(f"  90 % interval: a factor of {factor:.2f} either way")
    return "\n".join(lines), {
        "bundle": found.manifest.id,
        "rows": found.samples,
        "platform": name,
        "median_error_before": errors["none of them"],
        "median_error": errors["those of other models"],
        "interval_factor": factor,
    }
