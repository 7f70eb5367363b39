"""VAE + DNN by the measures of its abstract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.options import Options
from lab.experiments.shown import show

_HEADER = ("data", "split", "family", "R2 (log)", "median error", "order of 4", "ROC")


def evaluate(options: Options) -> None:
    """On AIWC and RAJAPerf, seen and unseen applications; with ``report`` a cut run goes on."""
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.published.vae import evaluate as vae_dnn  # noqa: PLC0415 - needs the extra

    with step_bar("evaluating", len(vae_dnn.plan()) * len(options.every_seed)) as advance:
        found = vae_dnn.evaluate(
            options.every_seed,
            Resume(options.unfinished),
            advance,
        )
    rows = [
        (
            line.data,
            line.split.partition(":")[0],
            line.family,
            _spread(line.r2_log_speedup, "{:.2f}"),
            _spread(line.median_error, "{:.0%}"),
            _spread(line.order_of_four, "{:.0%}"),
            _spread(line.roc_area, "{:.2f}"),
        )
        for line in found
    ]
    told = f"Mean over seeds {', '.join(map(str, options.every_seed))} [least, greatest]."
    show(
        options,
        [asdict(line) for line in found],
        f"{told}\n{columns(_HEADER, rows)}",
        file="vae-dnn.json",
    )


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    mean, low, high = sum(values) / len(values), min(values), max(values)
    return f"{form.format(mean)} [{form.format(low)}, {form.format(high)}]"
