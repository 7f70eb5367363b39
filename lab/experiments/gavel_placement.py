"""Every policy on Gavel's traces: placed by true throughputs, and by predicted ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.plugin.cli.output.step_bar import step_bar
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Partition,
    Settings,
    Trace,
    trace_of,
)
from berth.policies.settings import PolicySettings, Weights
from berth.policies.tuning.replayed import TraceReplayer
from berth.policies.tuning.replayer import Part
from berth.policies.values import Candidate
from lab.datasets import locate
from lab.datasets.gavel import DEVICES, THROUGHPUTS, TRACES, read_trace, throughputs
from lab.experiments.options import Options
from lab.ground.report import Report, Section

GPUS = 64
"""Of each device: fixed before any policy was tuned."""
KNOWN = "v100"
"""The device on which a job type's throughput is known when it is left out."""
PRICES = {"k80": 0.45, "p100": 1.46, "v100": 2.48}
BLIND = "heterogeneity-blind"
BARS = (0.05, 0.30)
POLICIES: Mapping[str, PolicySettings] = {
    "fastest": PolicySettings("fastest"),
    "fastest, waiting ignored": PolicySettings("fastest", weights=Weights(wait=0.0)),
    "earliest": PolicySettings("earliest"),
    "balanced": PolicySettings("balanced"),
    "cheapest": PolicySettings("cheapest"),
    BLIND: PolicySettings(BLIND),
    "random": PolicySettings("random"),
    "round-robin": PolicySettings("round-robin"),
    "static-best": PolicySettings("static-best", order=("v100", "p100", "k80")),
}
MODES = (Backfill.FCFS, Backfill.EASY)
LEARNT = ("fastest", "earliest", "balanced", "cheapest")
"""Those that look at throughputs."""
Floats = NDArray[np.float64]
Times: TypeAlias = dict[str, dict[str, float]]
"""Mean completion time by policy, by true or predicted throughputs."""


def evaluate(_: Options) -> Report:
    """Mean completion time of each policy under FCFS and EASY."""
    steps = [(trace, mode, ahead) for trace in TRACES for mode in MODES for ahead in (True, False)]
    sections, data, notes = [], {}, []
    with step_bar("replays", len(steps) * (len(POLICIES) + len(LEARNT))) as advance:
        for name, mode, lookahead in steps:
            jobs = jobs_of(name)
            found: Times = {}
            for kind, times in (("true", jobs.true), ("predicted", jobs.predicted)):
                for policy in POLICIES if kind == "true" else LEARNT:
                    finish_s = mean_finish_s(
                        jobs.trace, times, POLICIES[policy], mode, lookahead=lookahead
                    )
                    found.setdefault(policy, {})[kind] = finish_s
                    advance()
            waits = "look-ahead" if lookahead else "by the state"
            title = f"{Path(TRACES[name].path).stem}, {mode.value}, waits {waits}"
            sections.append(_section(title, found))
            data[title] = found
            if mode is MODES[0] and lookahead:
                notes.append(_note(name, jobs))
    return Report(
        "Policies on Gavel's traces",
        (
            *notes,
            f"Predicted: each job type left out, its throughput on a {KNOWN} known; the other "
            "devices by the ratios of other job types, those of the same model first. True: as "
            "measured. Waits: from the predicted ends of jobs (look-ahead), or from the state as "
            "the daemon has it.",
            f"Bars: predicted within {BARS[0]:.0%} of true, at least {BARS[1]:.0%} better than "
            f"{BLIND} under FCFS, in mean completion time. {GPUS} GPUs each were chosen by the "
            f"load of the first trace; the second was looked at in this report only.",
        ),
        tuple(sections),
        data=data,
    )


def _note(name: str, jobs: Jobs) -> str:
    error = np.expm1(np.abs(np.log(jobs.predicted["k80"] / jobs.true["k80"])))
    return (
        f"{Path(TRACES[name].path).stem}: {len(jobs.trace)} jobs on {GPUS} GPUs each of "
        f"{', '.join(DEVICES)}; {jobs.left_out} left out, of which no throughput was measured with "
        f"so many GPUs; median error of times predicted on a k80 {np.nanmedian(error):.0%}."
    )


def _section(title: str, found: Times) -> Section:
    blind = found[BLIND]["true"]
    rows = []
    for name in POLICIES:
        one = found[name]
        guessed = one.get("predicted")
        rows.append(
            (
                name,
                f"{one['true'] / 3600:.1f} h",
                "-" if guessed is None else f"{guessed / 3600:.1f} h",
                "-" if guessed is None else f"{guessed / one['true'] - 1:+.1%}",
                f"{(guessed or one['true']) / blind - 1:+.1%}",
            )
        )
    header = ("policy", "true", "predicted", "predicted / true", f"to {BLIND}")
    return Section(title, header, rows)


@dataclass(frozen=True)
class Jobs:
    """A trace, with true and predicted times by device."""

    trace: Trace
    true: Mapping[str, Floats]
    predicted: Mapping[str, Floats]
    left_out: int


@cache
def jobs_of(name: str) -> Jobs:
    """Of one of ``TRACES``. Raises DocumentError, ToolMissing."""
    read, steps = read_trace(locate(TRACES[name]))
    rates = dict(throughputs(locate(THROUGHPUTS)))
    guessed = {key: left_out_rates(key, rates) for key in rates}
    unknown = np.full(len(DEVICES), np.nan)
    keys = list(zip(read.names, read.gpus.tolist(), strict=True))
    rate = np.array([rates.get(key, unknown) for key in keys])
    guess = np.array([guessed.get(key, unknown) for key in keys])
    rate[rate <= 0] = np.nan  # does not run there
    guess[np.isnan(rate)] = np.nan
    kept = np.flatnonzero(np.isfinite(rate).all(axis=1) | np.isfinite(rate[:, -1]))
    true, predicted = (steps[kept, None] / r[kept] for r in (rate, guess))
    trace = trace_of(
        read.submit_s[kept], true[:, -1], np.ones(len(kept), np.int64), gpus=read.gpus[kept],
        queue=np.full(len(kept), len(DEVICES) - 1), queues=DEVICES,
    )  # fmt: skip
    columns = {device: true[:, i] for i, device in enumerate(DEVICES)}
    return Jobs(
        replace(trace, runtime_on=columns),
        columns,
        {device: predicted[:, i] for i, device in enumerate(DEVICES)},
        len(read) - len(kept),
    )


def left_out_rates(key: tuple[str, int], rates: Mapping[tuple[str, int], Floats]) -> Floats:
    """[devices] of a job type from its own rate on ``KNOWN`` and other types' ratios.

    Ratios are the geometric mean over the types of the same model with as many GPUs, those whose
    batch is nearer counting more; where there is none, over all types with as many GPUs.
    """
    own, at = rates[key][DEVICES.index(KNOWN)], DEVICES.index(KNOWN)
    others = {k: r for k, r in rates.items() if k[1] == key[1] and k[0] != key[0]}
    same = {k: r for k, r in others.items() if _model(k[0]) == _model(key[0])}
    found = np.full(len(DEVICES), np.nan)
    for device in range(len(DEVICES)):
        pairs = [
            (np.log(r[device] / r[at]), 1.0 / (0.5 + abs(_batch(k[0]) - _batch(key[0]))))
            for k, r in (same or others).items()
            if r[device] > 0 and r[at] > 0
        ]
        if pairs:
            logs, weights = np.array(pairs).T
            found[device] = own * np.exp(np.average(logs, weights=weights))
    found[at] = own
    return found


def _model(kind: str) -> str:
    return kind.partition(" (")[0]


def _batch(kind: str) -> float:
    """Log2 of the batch size; 0 where there is none."""
    match = re.search(r"batch size (\d+)", kind)
    return float(np.log2(int(match[1]))) if match else 0.0


def mean_finish_s(
    trace: Trace,
    times: Mapping[str, Floats],
    policy: PolicySettings,
    mode: Backfill,
    *,
    lookahead: bool,
) -> float:
    """Mean time from submission to end."""
    cluster = Cluster(
        tuple(NodeKind(name, 1, GPUS, GPUS) for name in DEVICES),
        tuple(Partition(name, (name,)) for name in DEVICES),
        pooled=True,
    )
    candidates = tuple(
        Candidate(
            name, name, name, gres="gpu", gpus_per_node=GPUS, gpu_memory_bytes=2**40,
            cores_per_node=GPUS, nodes=1, targets=("cuda",), price_per_gpu_hour=PRICES[name],
        )
        for name in DEVICES
    )  # fmt: skip
    settings = Settings(backfill=mode, kill_at_limit=False)
    of = {name: index for index, name in enumerate(DEVICES)}
    replayer = TraceReplayer(
        trace, cluster, settings, candidates, of, predicted=times, lookahead=lookahead
    )
    figures = replayer.replay(
        replace(policy, list_queues=True, max_interval_ratio=1e9), Part(0.0, np.inf)
    )
    if len(figures.finish_s) != len(trace) or figures.unjudged:
        raise ValueError(f"{figures.unjudged} jobs were not judged under {policy.objective}")
    return float(figures.finish_s.mean())
