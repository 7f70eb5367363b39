"""Parameters and MACs of model graphs."""

from __future__ import annotations

from berth.plugin.report.terminal import columns
from lab.experiments.options import Options
from lab.experiments.shown import show

_HEADER = ("model", "image", "M parameters", "published", "GMACs", "published", "likely why")


def evaluate(options: Options) -> None:
    """Parameters and MACs of the timm graphs beside the published ones."""
    from lab.graphs import totals  # noqa: PLC0415 - needs the extra

    found = totals.evaluate_totals()
    unknown = sum(row.unknown_operators for row in found.rows)
    rows = [
        (
            row.model, str(row.image_size), f"{row.parameters_millions:.3f}",
            f"{row.published_parameters_millions:.2f}", f"{row.gmacs_published_way:.3f}",
            f"{row.published_gmacs_of_that_way:.2f}", row.why,
        )
        for row in found.rows
        if row.parameters_off > totals.PARAMETERS_WITHIN
        or row.macs_off_published_way > totals.MACS_WITHIN
    ]  # fmt: skip
    lines = [
        f"{len(found.rows)} graphs at batch 1: {found.source}. Nothing is fitted: no split.",
        f"  unknown operators: {unknown} nodes",
        f"  parameters within 0.5 % of the published: {found.parameters_right:.1%} (bar 98 %); "
        f"or within its rounding: {found.parameters_right_but_rounding:.1%}",
        f"  GMACs within 2 % of the nearest published or its rounding: {found.macs_right:.1%} as "
        f"MACs, {found.macs_right_published_way:.1%} with normalisations and global pooling "
        "counted as fvcore does",
        "\nbeyond, counted the published way",
        columns(_HEADER, rows),
    ]
    show(options, found.as_dict(), "\n".join(lines), file="graphs-totals.json")
