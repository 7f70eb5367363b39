"""Sources of a model graph's time, and their combination, by situation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.cli.train.training_input import command_line
from lab.experiments.options import Options
from lab.experiments.shown import show_report

if TYPE_CHECKING:
    from lab.latency.combination import Combination


def evaluate(options: Options) -> None:
    """Errors and coverage of each source alone, the baseline, and all together."""
    from lab.latency.combination import report  # noqa: PLC0415 - needs the extra

    show_report(options, report(_found(options), options.seed))


def train(options: Options) -> str:
    """``source_errors.json`` in the folder that is given."""
    from lab.latency.combination import document  # noqa: PLC0415 - needs the extra

    made = document(_found(options), options.seed, command_line())
    write_text(options.bundle / "source_errors.json", to_json(made))
    return f"{len(made.errors)} errors of sources by situation"


def _found(options: Options) -> Combination:
    from lab.latency import combination, held_out_sources  # noqa: PLC0415 - needs the extra

    with step_bar("predicting held-out rows", held_out_sources.STEPS) as advance:
        return combination.evaluate(held_out_sources.all_situations(options.seed, advance))
