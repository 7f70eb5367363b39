"""The slice predictor."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show

_HEADER = ("method", "rows", "median", "mean", "p90", "of speed", "in 90 %", "in 95 %", "x", "told")


def train(options: Options) -> str:
    """The bundle from MISO and ParvaGPU."""
    from lab.slices.train import STEPS  # noqa: PLC0415 - needs the extra
    from lab.slices.train import train as run  # noqa: PLC0415

    manifest = learn(options, run, STEPS)
    rows = sum(entry.rows for entry in manifest.methods)
    return f"{manifest.id}: {len(manifest.methods)} methods on {rows} rows"


def evaluate(options: Options) -> None:
    """Leave-one-model-out on both data sets, with the baselines."""
    from lab.slices.run import STEPS  # noqa: PLC0415
    from lab.slices.run import evaluate as run  # noqa: PLC0415

    with step_bar("evaluating", STEPS) as advance:
        found = run(options.seed, advance)
    told = [f"Split: {found.split}; errors are |predicted / measured - 1| of t_slice / t_whole."]
    for name in dict.fromkeys(r.task for r in found.results):
        rows = [
            (
                r.method,
                str(r.figures.rows),
                f"{r.figures.median_error:.1%}",
                f"{r.figures.mean_error:.1%}",
                f"{r.figures.p90_error:.1%}",
                f"{r.figures.median_speed_error:.1%} / {r.figures.mean_speed_error:.1%}",
                *(
                    "-" if v is None else f"{v:.1%}"
                    for v in (r.figures.coverage_90, r.figures.coverage_95)
                ),
                "-" if r.figures.factor_90 is None else f"{r.figures.factor_90:.2f}",
                r.told,
            )
            for r in found.results
            if r.task == name
        ]
        told += [f"\n{name}", columns(_HEADER, rows)]
    told.append("\nIn the 90 % interval, by situation (rows):")
    for r in found.results:
        if r.figures.coverage_by:
            parts = (f"{s} {c:.0%} ({n})" for s, (n, c) in r.figures.coverage_by.items())
            told.append(f"  {r.task.partition(',')[0]}, {r.method}: {', '.join(parts)}")
    fits = found.fits
    told.append(
        f"\nfits, from the memory reserved on the whole GPU: {fits.said_but_failed} said to fit "
        f"and failed (of {fits.said_but_failed + fits.refused_and_failed} that failed), "
        f"{fits.refused_but_ran} refused that would have run (of "
        f"{fits.refused_but_ran + fits.said_and_ran} that ran)"
    )
    show(options, found.as_dict(), "\n".join(told))
