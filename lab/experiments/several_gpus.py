"""Copies of a model on several GPUs of a node."""

from __future__ import annotations

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.families.graph.several_gpus import SeveralGpus
from lab.datasets.mlperf import MLPERF, rates
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.latency.several_gpus import OFFLINE, SERVER, SPLIT, Found, fit, pairs
from lab.latency.several_gpus import evaluate as held_out

HEADER = (
    "scenario", "models", "pairs", "accelerators", "mean error", "n times one (baseline)",
    "in 90 % interval",
)  # fmt: skip


def evaluate(options: Options) -> Report:
    """Offline and server, models of one pass and language models."""
    every = rates()
    found: list[tuple[str, str, Found]] = []
    for scenario in (OFFLINE, SERVER):
        mine = pairs(every, scenario)
        for title, language in (("all", None), ("one pass", False), ("language models", True)):
            some = [pair for pair in mine if language in (None, pair.is_language_model)]
            found.append((scenario, title, held_out(mine, some)))
    rows = [
        (
            scenario, title, str(one.pairs), str(one.accelerators), f"{one.mean_error:.1%}",
            f"{one.linear_error:.1%}", f"{one.coverage:.0%}",
        )
        for scenario, title, one in found
    ]  # fmt: skip
    learnt = fit(pairs(every, OFFLINE))
    return Report(
        "Rates of a model on several accelerators of a node, MLPerf Inference v4.1",
        (
            f"Split: {SPLIT}. Errors are |predicted / measured - 1| of samples a second, "
            "accelerators weighing the same.",
            f"Offline, from all: {learnt.log_loss:.2%} of an accelerator's rate is lost with each "
            f"doubling; 90 % interval: a factor of {1 + learnt.log_width:.2f}.",
        ),
        (Section("Held out", HEADER, rows),),
        {
            "split": SPLIT,
            "results": [{"scenario": s, "models": t, "found": f} for s, t, f in found],
        },
    )


def train(options: Options) -> str:
    """``several_gpus.json`` in the folder that is given, from the offline scenario."""
    mine = pairs(rates(), OFFLINE)
    learnt, held = fit(mine), held_out(mine, mine)
    made = SeveralGpus(
        command=command_line(), created=now(), sources={MLPERF.path: MLPERF.sha256}, split=SPLIT,
        log_loss=learnt.log_loss, log_width=learnt.log_width, most=max(p.more for p in mine),
        groups=held.accelerators, rows=held.pairs, coverage=round(held.coverage, 4),
    )  # fmt: skip
    write_text(options.bundle / "several_gpus.json", to_json(made))
    return f"{made.rows} pairs of {made.groups} accelerators"
