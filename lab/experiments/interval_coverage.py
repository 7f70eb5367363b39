"""How often the 90 % intervals hold what was measured, of every family in each situation.

Nothing is computed anew: the errors that ship with the families and the figures of the gate say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.predictor.families.graph import several_gpus, source_errors
from berth.predictor.families.training_step import data_parallel, step_precision
from berth.predictor.families.training_step.step_widths import family_widths
from lab.experiments.options import Options
from lab.gate.command import FOLDER
from lab.gate.figure import Frozen, Part, load_frozen, load_parts
from lab.gate.results import Results
from lab.gate.sources import digest_of, folders
from lab.ground.report import Report, Section

LEAST, MOST = 0.85, 0.95
_NAME = re.compile(r"(?:^|, )coverage of 90 %(?: intervals)?")
HEADER = ("predicts", "data", "situation", "groups", "in 90 % interval", "", "from")


@dataclass(frozen=True, slots=True)
class Covered:
    """One situation."""

    predicts: str
    data: str
    situation: str
    coverage: float
    source: str
    """What computes it."""
    groups: int | None = None
    """Held out, each weighing the same; None: the gate does not say."""

    @property
    def verdict(self) -> str:
        """Against ``LEAST`` and ``MOST``."""
        if self.coverage < LEAST:
            return "too narrow"
        return "too wide" if self.coverage > MOST else "held"


def evaluate(options: Options) -> Report:
    """One table over all families; ``--report`` writes it."""
    results = Results(FOLDER, digest_of(folders()))
    found = [
        *_model_graphs(), _copies(), *_training_steps(),
        *of_gate(load_parts(), load_frozen(), results),
    ]  # fmt: skip
    rows = [
        (
            one.predicts, one.data, one.situation, "-" if one.groups is None else str(one.groups),
            f"{one.coverage:.1%}", one.verdict, one.source,
        )
        for one in found
    ]  # fmt: skip
    held = sum(one.verdict == "held" for one in found)
    return Report(
        "Coverage of 90 % intervals by situation",
        (
            f"Held: {LEAST:.0%} to {MOST:.0%} of what was held out, groups weighing the same. "
            "`gate`: computed with this code; `gate, frozen`: when it was last frozen.",
        ),
        (Section(f"{held} of {len(found)} situations held", HEADER, rows),),
        {"least": LEAST, "most": MOST, "situations": [_as_dict(one) for one in found]},
    )


def _as_dict(one: Covered) -> dict[str, object]:
    return {
        "predicts": one.predicts, "data": one.data, "situation": one.situation,
        "groups": one.groups, "coverage": one.coverage, "verdict": one.verdict, "from": one.source,
    }  # fmt: skip


def _model_graphs() -> Iterator[Covered]:
    for one in source_errors.shipped().errors:
        if one.source == source_errors.COMBINED:
            yield Covered(
                "model graph, sources combined", "timm and own runs", one.situation, one.coverage,
                "graph-sources", one.groups,
            )  # fmt: skip


def _copies() -> Covered:
    found = several_gpus.shipped()
    return Covered(
        "model graph, copies on several GPUs", "MLPerf Inference v4.1", "new accelerator",
        found.coverage, "several-gpus", found.groups,
    )  # fmt: skip


def _training_steps() -> Iterator[Covered]:
    for platform, width in family_widths().items():
        yield Covered(
            "training step", platform, "unseen family", width.coverage, "training-steps",
            width.groups,
        )  # fmt: skip
    other = step_precision.width()
    yield Covered(
        "training step, fp32 on GPUs", "NeuSight's language models", "other precision",
        other.coverage, "training-precision", other.groups,
    )  # fmt: skip
    copies = data_parallel.shipped()
    yield Covered(
        "training step, copies on several GPUs", "Gavel, K80 and P100", "new device",
        copies.coverage, "data-parallel", copies.groups,
    )  # fmt: skip


def of_gate(
    parts: Iterable[Part], frozen: dict[str, Frozen], results: Results
) -> Iterator[Covered]:
    """The figures that are near to a nominal coverage, once each: of the short part, if both."""
    seen: set[tuple[str, str, str]] = set()
    for part in parts:
        now = results.read(part)
        for figure in part.figures:
            key = (figure.data, figure.split, figure.name)
            if figure.better != "near" or figure.target is None or key in seen:
                continue
            value = None if now is None else now.values.get(figure.id)
            before = frozen.get(figure.id)
            if value is None and before is None:
                continue
            seen.add(key)
            yield Covered(
                ", ".join(filter(None, (part.name, _NAME.sub("", figure.name).lstrip(", ")))),
                figure.data,
                figure.split,
                value if value is not None else before.before if before else 0.0,
                "gate" if value is not None else "gate, frozen",
            )
