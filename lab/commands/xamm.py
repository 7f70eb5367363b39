"""``berth evaluate --task xamm``: the paper's ablations with tables and pictures."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.commands.asked import Asked
from lab.commands.inputs import require_networks
from lab.commands.shown import show


def evaluate(asked: Asked) -> None:
    """Every ablation on the AIWC data set; with ``report``, a run cut short goes on."""
    require_networks("evaluation of xAMM")
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415
    from lab.published.xamm import ablation, pictures  # noqa: PLC0415
    from lab.published.xamm.plan import (  # noqa: PLC0415
        NEW_TARGET,
        SCENARIOS,
        tried,
    )
    from lab.published.xamm.report import (  # noqa: PLC0415
        HEADER,
        SPLIT,
        table,
        write_report,
    )
    from lab.relative.data import aiwc_rows  # noqa: PLC0415

    seeds, report = asked.seeds, asked.report
    rows, scenarios = aiwc_rows(), (*SCENARIOS, NEW_TARGET)
    with step_bar("ablations", ablation.steps(rows, seeds) * len(scenarios)) as advance:
        kept = Resume(asked.folds)
        found = [
            ablation.ablate(rows, s, seeds=seeds, kept=kept, advance=advance) for s in scenarios
        ]
    if report is not None:
        names = pictures.bars(found, report)
        picture, parted = pictures.embeddings(rows, seeds[0], report)
        write_report(found, seeds, report, [*names, picture], parted)
    told = [f"Split: {SPLIT}."]
    for each in found:
        told += [
            f"\n{each.scenario.name}: {each.samples} held-out samples",
            columns(HEADER[1:], [row[1:] for row in table(each, tried(each.scenario))]),
        ]
    document = [row for each in found for row in ablation.as_rows(each)]
    show(asked, document, "\n".join(told), file=None)
