"""Whole programs on one core of a CPU that they never ran on, beside plain baselines.

Each CPU in turn is the reference, with the program's time, instructions and mispredicted branches
there (no loads, no cache misses: what the profile lacks is lacking). Each other CPU is predicted.
Nothing is fitted on the CPUs or programs that are predicted:

- *published score*: what somebody published of the CPU; it contains the program itself, as a
  published score may;
- *score of other programs*: the same, computed without the program that is predicted;
- *score of the reference only*: that of the other CPU is estimated without what was measured of it;
- *no score*: both CPUs' scores are estimated without what was measured of them, from the other
  twelve CPUs, a public list of another kind of programs and vendors' statements
  (``core_scores``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from berth.pilot.documents import write_json
from berth.pilot.native import runtime_of
from berth.pilot.platform import CoreScore
from berth.pilot.profile import Invocation, Measurement, Profile, Provenance, Quality, RunsOn
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware.by_sheet import platform_of_processor
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.hardware.core_speed import SCORE_TABLE, processor_score
from berth.predictor.hardware.processor import cores, processors
from lab.cpus.core_scores import scores_without
from lab.datasets.cpu_programs import CpuPrograms, cpu_programs
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section

APART = np.log(1.1)
"""Log ratio from which on a pair of places must be in the right order."""
SPLIT = "each CPU in turn the reference, each other CPU left out; see the module's text"


@dataclass(frozen=True, slots=True)
class Guess:
    """Predicted log seconds and half widths, as arrays of references x CPUs x programs."""

    log_s: Floats
    width: Floats | None = None
    """Of the time; None: the method gives no interval."""
    own_width: Floats | None = None
    """The part of the width that other places do not share."""


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """Errors of one method over all references, CPUs and programs."""

    error: float
    """Median of ``|log(predicted / measured)|``, as a factor minus 1."""
    pairs: float
    """Share of pairs of places (the reference among them) in the right order."""
    arm_bias: float | None = None
    """Median of predicted / measured time on Arm from x86-64, and of its inverse from Arm."""
    arm_coverage: float | None = None
    """On Arm from x86-64."""
    factor: float | None = None
    """Median factor of the interval of a time."""
    coverage: float | None = None
    ratio_factor: float | None = None
    """Median factor of the interval of a ratio of two places."""
    ratio_coverage: float | None = None


def figures(data: CpuPrograms, guess: Guess) -> CpuFigures:
    """Return the errors of ``guess``."""
    truth = np.log(data.seconds)
    off = guess.log_s - truth
    away = ~np.eye(len(data.cpus), dtype=bool)
    arm = np.array([cores()[processors()[cpu].core].architecture == "aarch64" for cpu in data.cpus])
    to_arm = arm[None] & ~arm[:, None]
    bias = np.concatenate([off[to_arm].ravel(), -off[to_arm.T].ravel()])
    right: list[NDArray[np.bool_]] = []
    inside: list[NDArray[np.bool_]] = []
    factors: list[Floats] = []
    for a, b in combinations(range(len(data.cpus)), 2):
        actual = truth[a] - truth[b]
        ratio = guess.log_s[:, a] - guess.log_s[:, b]
        told = np.broadcast_to(np.abs(actual) > APART, ratio.shape)
        right.append((ratio * actual > 0)[told])
        if guess.own_width is not None:
            both = np.hypot(guess.own_width[:, a], guess.own_width[:, b])
            inside.append((np.abs(ratio - actual) <= both).ravel())
            factors.append(both.ravel())
    width = guess.width
    known = None if width is None else (np.abs(off) <= width)[away]
    return CpuFigures(
        error=float(np.expm1(np.median(np.abs(off[away])))),
        pairs=float(np.concatenate(right).mean()),
        arm_bias=float(np.exp(np.median(bias))) if len(bias) else None,
        arm_coverage=float((np.abs(off) <= width)[to_arm].mean())
        if width is not None and to_arm.any()
        else None,
        factor=None if width is None else float(np.exp(np.median(width[away]))),
        coverage=None if known is None else float(known.mean()),
        ratio_factor=float(np.exp(np.median(np.concatenate(factors)))) if factors else None,
        ratio_coverage=float(np.concatenate(inside).mean()) if inside else None,
    )


def profile_of(data: CpuPrograms, cpu: int, program: int) -> Profile:
    """Return what was measured of a program on a CPU, as a profile."""
    instructions = float(data.instructions[cpu, program])
    counts = {
        "instructions": instructions,
        "branch_misses": instructions * float(data.mispredicts[cpu, program]),
    }
    return Profile(
        schema="berth.profile/1",
        name=data.programs[program],
        platform=data.cpus[cpu],
        workload=Invocation(command=(data.programs[program],)),
        runs_on=RunsOn(),
        runtime=runtime_of([float(data.seconds[cpu, program])]),
        peak_memory_bytes=None,
        counters={
            name: Measurement(value=value, quality=Quality.MEASURED, source="perf")
            for name, value in counts.items()
        },
        provenance=Provenance(created="", berth_version=""),
    )


Scores = Callable[[int, int, int], CoreScore | None]
"""Score of a CPU, where a reference and a program are predicted; None: the catalogue's."""


def berth(data: CpuPrograms, scores: Scores, advance: Callable[[], None] = lambda: None) -> Guess:
    """Return Berth's predictions by its own path: Predictor, profiles, platform files."""
    predictor = Predictor.load()
    shape = (len(data.cpus), *data.seconds.shape)
    log_s, width, own = np.zeros((3, *shape))
    for r in range(len(data.cpus)):
        for p in range(len(data.programs)):
            platforms = [
                platform_of_processor(processors()[cpu], score=scores(r, c, p))
                for c, cpu in enumerate(data.cpus)
            ]
            predictions = predictor.predict_points(
                profile_of(data, r, p), [Allocation(each, 1) for each in platforms],
                reference=platforms[r],
            )  # fmt: skip
            for c, prediction in enumerate(predictions):
                log_s[r, c, p] = np.log(prediction.runtime_s.mid)
                width[r, c, p] = prediction.runtime_s.log_width
                own[r, c, p] = prediction.ratio_log_width
        advance()
    return Guess(log_s, width, own)


def score_settings(data: CpuPrograms) -> Mapping[str, Scores]:
    """Return the scores that Berth is granted, by the name of the setting."""
    log_speed = -np.log(data.seconds)

    def of_others(_: int, cpu: int, program: int) -> CoreScore:
        parts = []
        for kind in (1.0, 0.0):
            taken = data.integer == kind
            taken[program] = False
            relative = log_speed[cpu] - log_speed[data.cpus.index("epyc-7742")]
            parts.append(float(np.exp(relative[taken].mean())))
        return CoreScore(integer=parts[0], floating_point=parts[1], source="the other programs")

    def of_reference(reference: int, cpu: int, _: int) -> CoreScore | None:
        name = data.cpus[cpu]
        return None if cpu == reference else scores_without(name).of(processors()[name])

    def none(reference: int, cpu: int, _: int) -> CoreScore:
        left_out = sorted({data.cpus[reference], data.cpus[cpu]})
        return scores_without(*left_out).of(processors()[data.cpus[cpu]])

    return {
        "Berth, published score": lambda *_: None,
        "Berth, score of other programs": of_others,
        "Berth, score of the reference only": of_reference,
        "Berth, no score": none,
    }


def baselines(data: CpuPrograms) -> Mapping[str, Guess]:
    """Return the plain methods that Berth must beat."""
    own = np.log(data.seconds)[:, None, :]
    truth = np.log(data.seconds)[None]
    change = truth - own
    count = len(data.programs)
    scores = [processor_score(processors()[cpu]) for cpu in data.cpus]
    speed = np.log([[s.floating_point, s.integer] for s in scores])
    published = speed[:, data.integer.astype(int)]
    clock = np.log(data.clock_hz)
    return {
        "same time": Guess(np.broadcast_to(own, change.shape)),
        "clock ratio": Guess(own + clock[:, None] - clock[None]),
        "own time x published score (suite known)": Guess(
            own + published[:, None] - published[None]
        ),
        "own time x factor of the other programs": Guess(
            own + (change.sum(axis=2, keepdims=True) - change) / (count - 1)
        ),
    }


def train(options: Options) -> str:
    """Write the table of scores, ``core_scores.json``, to the folder of ``--train``."""
    table = scores_without()
    write_json(options.bundle / SCORE_TABLE.name, table)
    return f"{len(table.cores)} cores; {len(table.measured)} models were measured"


def evaluate(_: Options) -> Report:
    """Report Berth's errors beside those of the plain baselines."""
    data = cpu_programs()
    settings = score_settings(data)
    with step_bar("predicting", len(settings) * len(data.cpus)) as advance:
        guesses = {
            **baselines(data),
            **{name: berth(data, scores, advance) for name, scores in settings.items()},
        }
    found = {name: figures(data, guess) for name, guess in guesses.items()}
    return Report(
        "Whole programs on one core of CPUs that they never ran on",
        (f"{len(data.cpus)} CPUs, {len(data.programs)} programs; {SPLIT}.",),
        (Section("Errors", _HEADER, [(name, *_cells(each)) for name, each in found.items()]),),
        {"split": SPLIT, "figures": found},
    )


_HEADER = (
    "method", "median error", "pairs right", "interval x", "coverage", "ratio interval x",
    "ratio coverage", "Arm's bias", "Arm's coverage",
)  # fmt: skip


def _cells(of: CpuFigures) -> list[str]:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else form.format(value)

    return [
        cell(of.error, "{:.1%}"), cell(of.pairs, "{:.1%}"), cell(of.factor, "{:.2f}"),
        cell(of.coverage, "{:.1%}"), cell(of.ratio_factor, "{:.2f}"),
        cell(of.ratio_coverage, "{:.1%}"), cell(of.arm_bias, "{:.2f}"),
        cell(of.arm_coverage, "{:.1%}"),
    ]  # fmt: skip
