"""The predictor of training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show

if TYPE_CHECKING:
    from lab.steps.training_runs import TrainingRuns

_HEADER = ("method", "target", "rows", "mean", "median", "in 10 %", "tau")


def train(options: Options) -> str:
    """The bundle from timm's training rows and our own."""
    from lab.steps.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.steps.train import train as run  # noqa: PLC0415

    manifest = learn(options, run, STEPS)
    rows = sum(head.rows for head in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} devices of {rows} rows"


def evaluate(options: Options) -> None:
    """Every split, TraPPM with and without pre-training, baselines, transfer."""
    from lab.steps.training_parts import Session  # noqa: PLC0415
    from lab.steps.training_runs import PARTS  # noqa: PLC0415
    from lab.steps.training_runs import evaluate as run  # noqa: PLC0415

    with step_bar("evaluating", PARTS) as advance:
        found = run(Session(options.seed, options.report, advance))
    show(options, found.as_dict(), _tables(found), page=True)


def _tables(found: TrainingRuns) -> str:
    from lab.steps.training_runs import DATA, SPLITS  # noqa: PLC0415

    lines = ["Training steps. Errors are |predicted / measured - 1|."]
    for name, title in DATA.items():
        for where in SPLITS:
            rows = [
                (
                    r.method, r.target, str(r.figures.rows), f"{r.figures.mean_error:.1%}",
                    f"{r.figures.median_error:.1%}", f"{r.figures.within_10:.1%}",
                    f"{r.figures.kendall_tau:.3f}",
                )
                for r in found.rows
                if (r.data, r.split) == (name, where)
            ]  # fmt: skip
            if rows:
                lines += ["", f"{title}. Split: {where}", columns(_HEADER, rows)]
    told = [
        (arm, asked, f"{one[asked]['auc']:.3f}", f"{one[asked]['ap']:.3f}",
         f"{one[asked]['loss']:.3f}")
        for arm, one in found.edges.items()
        if isinstance(one, dict) and "edges" in one
        for asked in ("edges", "hidden edges")
    ]  # fmt: skip
    if told:
        lines += [
            "", f"Edges told from pairs that are none, on {found.edges['held_out']} graphs of "
            "families that the auto-encoder never saw",
            columns(("auto-encoder", "asked for", "AUC", "AP", "loss"), told),
        ]  # fmt: skip
    for case in dict.fromkeys(one["case"] for one in found.transfer):
        moved = [
            (one["method"], str(one["k"]), str(one["rows"]), f"{one['mape']:.1%}",
             f"{one['median']:.1%}")
            for one in found.transfer
            if one["case"] == case
        ]  # fmt: skip
        header = ("method", "samples", "rows", "mean", "median")
        lines += ["", f"Transfer of the step time. {case}. Split: models not among the samples",
                  columns(header, moved)]  # fmt: skip
    return "\n".join(lines)
