"""Add a site's platform to a model-graph bundle from few runs of ``berth pilot dl``.

The runs are appended to the bundle's training cases (measured latencies of a model on a device) and
the weights of all cases are computed again. How much the new platform differs from known ones, and
how noisy its samples are, is chosen by marginal likelihood (``posterior.JointLatencies.moved``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_solve

from berth.pilot.dl.document import ComputeDevice, ModelRun, Outcome, Task
from berth.pilot.errors import UsageError
from berth.pilot.host import sha256_of
from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import now, write_bundle
from berth.predictor.core.intervals import group_quantile
from berth.predictor.families.graph.latency.features import GraphWork, work_of
from berth.predictor.families.graph.transfer import bundle as bundles
from berth.predictor.families.graph.transfer.bundle import TransferManifest
from berth.predictor.families.graph.transfer.cases import Cases, Codes, case_of, stacked
from berth.predictor.families.graph.transfer.kernel import Own
from berth.predictor.families.graph.transfer.posterior import is_fused, stack_name
from berth.predictor.graphs.reader import read_graph
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roof_of
from berth.predictor.learning.graphs.posterior import LatencyPosterior, fit_cases

MODELS_FOR_WIDTH = 9
"""Number of measured models from which on the interval comes from their own left-out errors.

With fewer models the interval is that of held-out devices after the same number of models.
"""
LEAST_LOG_WIDTH = 1e-3
"""Smallest log half width of a 90 % interval."""


@dataclass(frozen=True)
class Samples:
    """Latencies measured on a new platform, in the form that the Gaussian process is fitted to."""

    cases: Cases
    residual: Floats
    """[samples] log of seconds per inference over the roofline time."""
    stacks: tuple[str, ...]
    """Names of the software stacks that ``cases.stack`` refers to."""
    names: tuple[str, ...]
    """[samples] names of the models."""
    threads: int | None
    """CPU threads of all runs; None on a GPU."""

    def __len__(self) -> int:
        return len(self.residual)


@dataclass(frozen=True)
class AdaptedTransfer:
    """The bundle that adaptation wrote, with its errors on the samples before and after."""

    manifest: bundles.TransferManifest
    platform: str
    samples: int
    before: Floats
    """[samples] absolute log errors of the bundle before any sample of the platform."""
    after: Floats
    """[samples] absolute log errors where each model is predicted from samples of the others."""
    models: int
    """Number of different models among the samples."""
    log_width: float
    """Log half width of the platform's 90 % intervals."""


Find: TypeAlias = Callable[[ModelRun], GraphWork | None]
"""A function from a run to the operators and memory of its model at batch 1; None where the graph
is unknown."""


def from_files(paths: Sequence[Path]) -> Find:
    """Return a function that finds a run's model among ONNX files by digest; each file is read
    once.

    The returned function raises DocumentError for a file that cannot be read.
    """
    files = {sha256_of(path): path for path in paths}
    read: dict[str, GraphWork] = {}

    def find(run: ModelRun) -> GraphWork | None:
        path = files.get(run.model.sha256)
        key = _model_key(run)
        if path is not None and key not in read:
            read[key] = work_of(read_graph(path, batch=1, sizes=run.setting.sizes))
        return read.get(key)

    return find


def _model_key(run: ModelRun) -> str:
    return f"{run.model.sha256} {sorted(run.setting.sizes.items())}"


def samples_of(
    runs: Sequence[ModelRun], find: Find, platform: Platform, known: Mapping[str, Platform]
) -> Samples:
    """Return the usable inference runs whose model ``find`` knows, as samples of ``platform``.

    Usable runs completed on the whole device. Raises UsageError where there are none, or where CPU
    runs differ in their number of threads.
    """
    wanted = [run for run in runs if _usable(run)]
    usable_runs = [(run, work) for run in wanted if (work := find(run)) is not None]
    if not usable_runs:
        why = (
            f"the model of none of the {len(wanted)} runs is among the ONNX files given"
            if wanted
            else f"none of the {len(runs)} runs is of inference, whole and ended well"
        )
        raise UsageError(
            f"no run can be learnt from: {why}",
            hint="give the .jsonl of `berth pilot dl` and the .onnx files it measured",
        )
    threads = {
        run.setting.threads for run, _ in usable_runs if run.setting.device is ComputeDevice.CPU
    }
    if len(threads) > 1:
        raise UsageError(
            f"runs with {', '.join(map(str, sorted(threads)))} threads are several platforms",
            hint="give the runs of one number of threads",
        )
    cores = threads.pop() if threads else None
    roof = roof_of(platform, known, cores or platform.cores)
    rows, stacks = [], []
    for run, work in usable_runs:
        numbers = Numbers(run.setting.precision.value)
        stacks.append(stack_name(platform.name, numbers, run.setting.framework, cores))
        rows.append(case_of(work, roof, numbers, run.setting.batch, fused=is_fused(stacks[-1])))
    names, models = sorted(set(stacks)), sorted({_model_key(run) for run, _ in usable_runs})
    cases = replace(
        stacked(rows),
        stack=np.array([names.index(name) for name in stacks]),
        model=np.array([models.index(_model_key(run)) for run, _ in usable_runs]),
    )
    taken = np.array(
        [float(run_seconds(run) or np.nan) / run.setting.batch for run, _ in usable_runs]
    )
    return Samples(
        cases, np.log(taken) - cases.log_roof, tuple(names),
        tuple(run.model.name for run, _ in usable_runs), cores,
    )  # fmt: skip


def _usable(run: ModelRun) -> bool:
    whole = run.setting.sm_percentage in (None, 100)
    return run.setting.task is Task.INFERENCE and whole and run_seconds(run) is not None


def adapt(
    folder: Path, platform: Platform, samples: Samples, out: Path, *, command: str
) -> AdaptedTransfer:
    """Write to ``out`` the model-graph bundle of ``folder`` with a platform's measured samples
    added.

    Samples that a site added for this platform before are replaced. Raises DocumentError for a
    damaged bundle, UsageError where the platform is in the training data already.
    """
    posterior, residual, noise, manifest = bundles.read(folder)
    old = {entry.platform: entry for entry in manifest.platforms}
    if platform.name in old and old[platform.name].samples is None:
        raise UsageError(
            f"{platform.name} is in the data set already", hint="give your platform its own name"
        )
    is_other = np.array([posterior.devices[n] != platform.name for n in posterior.cases.device])
    cases, residual, noise = posterior.cases[is_other], residual[is_other], noise[is_other]
    devices = [name for name in posterior.devices if name != platform.name]
    cases = replace(cases, device=_recoded(cases.device, posterior.devices, devices))
    own = Own(
        np.array([old[name].novelty_scale for name in devices]),
        np.array([old[name].shift for name in devices]),
    )
    after = fit_cases(
        cases, residual, posterior.kernel, posterior.offset, noise=noise, own=own[cases.device]
    )
    stacks = list(posterior.stacks) + [
        name for name in samples.stacks if name not in posterior.stacks
    ]
    new = rounded(replace(
        samples.cases,
        device=np.full(len(samples), len(devices)),
        stack=_recoded(samples.cases.stack, samples.stacks, stacks),
        model=samples.cases.model + cases.model.max(initial=-1) + 1,
    ))  # fmt: skip
    joint = after.joint(new)
    moved = joint.moved(np.arange(len(new)), samples.residual, groups=new.model)
    weights = np.concatenate((_corrected(after, new, moved.weights), moved.weights))
    before = np.abs(joint.mean - samples.residual)
    left = np.abs(moved.left_out - samples.residual)
    models = len(np.unique(new.model))
    if models >= MODELS_FOR_WIDTH:
        width = max(group_quantile(left.tolist(), [str(n) for n in new.model]), LEAST_LOG_WIDTH)
    else:
        width = posterior.log_width_of(models, gpu=platform.is_gpu)
    entry = bundles.PlatformEntry(
        platform=platform.name, novelty_scale=moved.novelty_scale, shift=moved.shift,
        samples=len(samples), threads=samples.threads, log_width=width,
    )  # fmt: skip
    adapted = replace(
        posterior, cases=cases.joined(new), weights=weights, devices=(*devices, platform.name),
        stacks=tuple(stacks), own=own.joined(moved.novelty_scale, moved.shift),
    )  # fmt: skip
    arrays = bundles.arrays_of(
        adapted, np.concatenate((residual, samples.residual)),
        np.concatenate((noise, np.full(len(new), moved.noise))),
    )  # fmt: skip
    filled = manifest.model_copy(update={
        "platforms": (*(old[name] for name in devices), entry), "stacks": tuple(stacks),
        "command": command, "created": now(),
    })  # fmt: skip
    made_of = {bundles.CASES: arrays, CARD: card(filled).encode()}
    written = write_bundle(out, filled, made_of, load=bundles.load)
    return AdaptedTransfer(written, platform.name, len(samples), before, left, models, width)


def advised(
    folder: Path, works: Sequence[GraphWork], place: tuple[Roof, Numbers], *, batch: int, count: int
) -> list[int]:
    """Return indices into ``works`` of the model graphs to measure on a new platform, the most
    informative first.

    Raises DocumentError for a damaged bundle.
    """
    roof, numbers = place
    posterior, residual, noise, _ = bundles.read(folder)
    after = fit_cases(
        posterior.cases, residual, posterior.kernel, posterior.offset, noise=noise,
        own=posterior.own[posterior.cases.device],
    )  # fmt: skip
    cases = stacked([
        case_of(work, roof, numbers, batch, fused=not roof.is_gpu) for work in works
    ])  # fmt: skip
    alone = np.full(len(cases), len(posterior.devices))
    new = replace(cases, device=alone, stack=np.full(len(cases), len(posterior.stacks)))
    return [int(n) for n in after.joint(new).advised(np.arange(len(cases)), count)]


def rounded(cases: Cases) -> Cases:
    """Return the measured cases with features rounded to the float32 that the bundle stores."""
    graph, place = (
        array.astype(np.float32).astype(np.float64) for array in (cases.graph, cases.place)
    )
    return replace(cases, graph=graph, place=place)


def _corrected(after: LatencyPosterior, new: Cases, weights: Floats) -> Floats:
    """Return the Gaussian-process weights of the old cases after new cases with ``weights`` were
    added."""
    across = after.kernel.covariance(after.cases, new)
    return np.asarray(after.weights - cho_solve((after.factor, True), across @ weights))


def _recoded(codes: Codes, old: Sequence[str], new: Sequence[str]) -> Codes:
    place = np.array([new.index(name) if name in new else -1 for name in old])
    return np.asarray(place[codes], np.int64)


def card(manifest: TransferManifest) -> str:
    """Return the text of the model card (``CARD.md``) for a manifest."""
    lines = [
        "# Model card: latency of model graphs on a new platform",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        "A Gaussian process over graph, platform and software, around the time under the",
        "platform's roofs (`predictor/families/graph/transfer/kernel.py`). `cases.npz` holds the",
        "measured cases it stands on, as features and times, without names or graphs; a site adds",
        "its own by `berth train --task models --adapt` (`docs/model-runs.md`).",
        "",
        "## Data",
        *(f"- `{path}` sha256 `{sum_[:16]}`" for path, sum_ in manifest.training.sources.items()),
        "",
        f"pytorch-image-models, results, Apache-2.0: inference, {manifest.training.rows} rows of",
        f"{', '.join(entry.platform for entry in manifest.platforms)}.",
        "",
        "## Widths",
        "Factor from the middle to an end of the 90 % interval, by samples of the platform: the",
        "widest of the held-out devices of its kind, of which there are three and two; not",
        f"guaranteed. Split: {manifest.split}.",
        "",
        "| samples | GPU | CPU |",
        "|---|---|---|",
    ]
    gpu, cpu = (
        {entry.samples: math.exp(entry.log_width) for entry in manifest.widths if entry.gpu == kind}
        for kind in (True, False)
    )
    lines += [
        f"| {k} | {gpu[k]:.2f} | {cpu[k]:.2f} |" for k in sorted(gpu.keys() & cpu.keys())
    ]  # fmt: skip
    lines += [
        "",
        "## What is not verified",
        "Language models, training steps, MIG slices and accelerators of other makers: no row of",
        "them was learnt from. GPUs of data centres: none is in the data.",
        "",
    ]
    return "\n".join(lines)


def run_seconds(run: ModelRun) -> float | None:
    """Return the seconds of one undisturbed run: processor time with one CPU thread, else median
    latency.

    None where the run failed or was not timed.
    """
    if run.outcome is not Outcome.OK or run.latency is None or run.processor_time is None:
        return None
    single = run.setting.device is ComputeDevice.CPU and run.setting.threads == 1
    return run.processor_time.median_s if single else run.latency.median_s
