"""The learnt time of model graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.pilot.errors import UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show

if TYPE_CHECKING:
    from lab.latency.run import LatencyEvaluation

_HEADER = ("rows of", "method", "rows", "MAPE", "median", "Acc(10 %)", "tau", "in 90 %", "x")


def train(options: Options) -> str:
    """The bundle from timm's measurements and our own runs."""
    from lab.latency.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.latency.train import train as run  # noqa: PLC0415

    manifest = learn(options, run, STEPS)
    rows = sum(one.rows for one in manifest.settings)
    return f"{manifest.id}: {len(manifest.settings)} settings, {rows} rows"


def evaluate(options: Options) -> None:
    """The parts in ``only`` (default: all)."""
    from lab.latency.run import PARTS, steps  # noqa: PLC0415
    from lab.latency.run import evaluate as run  # noqa: PLC0415

    if stray := next((name for name in options.only if name not in PARTS), None):
        raise UsageError(f"there is no part {stray!r}", hint=f"--family {'|'.join(PARTS)}")
    parts = tuple(part for part in PARTS if part in options.only) or PARTS
    with step_bar("evaluating", steps(parts)) as advance:
        found = run(options.seed, parts, advance)
    show(options, found.as_dict(), _tables(found), page=True)


def _tables(found: LatencyEvaluation) -> str:
    from lab.latency.run import BARS  # noqa: PLC0415 - needs the extra

    lines = [
        "Seconds of an image; errors are |predicted / measured - 1|; knobs chosen on inner folds.",
        f"Floor: {found.floor.groups} settings timed under several versions of torch stand "
        f"{found.floor.mean_error:.1%} (median {found.floor.median_error:.1%}) apart.",
        f"Seed {found.seed}; {found.described} graphs for {found.graphs} networks.",
    ]
    for split in dict.fromkeys(one.split for one in found.results):
        rows = [
            (
                r.rows_of, r.method, str(r.figures.rows), f"{r.figures.mape:.1%}",
                f"{r.figures.median:.1%}", f"{r.figures.within:.1%}", f"{r.figures.tau:.3f}",
                "-" if r.coverage is None else f"{r.coverage:.1%}",
                "-" if r.factor is None else f"{r.factor:.2f}",
            )
            for r in found.results if r.split == split
        ]  # fmt: skip
        bar = f" (bar: MAPE {BARS[split]:.0%})" if split in BARS else ""
        lines += ["", f"Split: {split}{bar}", columns(_HEADER, rows)]
    return "\n".join(lines)
