"""``berth evaluate --task vae``: VAE + DNN by the measures of its abstract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from berth.plugin.cli.columns import columns
from berth.plugin.cli.tasks.asked import Asked
from berth.plugin.cli.tasks.shown import show
from berth.plugin.cli.tasks.step_bar import step_bar
from berth.plugin.cli.training_input import require_networks

_HEADER = ("data", "split", "family", "R2 (log)", "median error", "order of 4", "ROC")


def evaluate(asked: Asked) -> None:
    """On AIWC and RAJAPerf, seen and unseen applications; with ``report`` a cut run goes on."""
    require_networks("evaluation of VAE + DNN")
    from berth.predictor.evaluation.relative import vae_dnn  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kept import Kept  # noqa: PLC0415

    with step_bar("evaluating", len(vae_dnn.plan()) * len(asked.seeds)) as advance:
        found = vae_dnn.evaluate(
            asked.seeds,
            Kept(asked.folds),
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
    told = f"Mean over seeds {', '.join(map(str, asked.seeds))} [least, greatest]."
    show(
        asked,
        [asdict(line) for line in found],
        f"{told}\n{columns(_HEADER, rows)}",
        file="vae-dnn.json",
    )


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    mean, low, high = sum(values) / len(values), min(values), max(values)
    return f"{form.format(mean)} [{form.format(low)}, {form.format(high)}]"
