"""One picture an application: why it runs as it does elsewhere, by a model that had not seen it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from berth.pilot.documents import write_text
from berth.plugin.pictures import explained
from berth.predictor.families.relative.explain import AXES, SHARES, explain_cost_model
from berth.predictor.families.relative.neighbours import Neighbours
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.cost_model_family import CostModelFamily

LIST = "explanations.md"
MOST = 12
"""Applications that are drawn: those that run longest."""


def draw_applications(rows: Rows, family: CostModelFamily, folder: Path, seed: int) -> list[Path]:
    """``why-APPLICATION.svg`` of the longest row of up to ``MOST``, sentences in ``LIST``.

    Shown are the platforms on which the program is predicted fastest. Raises ToolMissing.
    """
    lines, pictures = ["# Why each application runs as it does elsewhere", ""], []
    lines += [
        "The longest row of each, by a cost model that learnt from all other applications.",
        "",
    ]
    names = np.array(rows.applications)
    longest = {name: float(rows.log_reference[names == name].max()) for name in names.tolist()}
    for name in sorted(sorted(longest, key=lambda n: -longest[n])[:MOST]):
        held, rest = np.flatnonzero(names == name), np.flatnonzero(names != name)
        row = rows.take([int(held[rows.log_reference[held].argmax()])])
        train = rows.take(rest.tolist())
        model = family.fit(train, seed)
        found = explain_cost_model(model, Neighbours.fit(train).centre, row)
        found.sort(key=lambda one: -one.speedup)
        path = folder / f"why-{re.sub('[^A-Za-z0-9_.-]', '_', name)}.svg"
        program = f"{row.applications[0]} {row.kernels[0]} ({row.sizes[0]})"
        explained.draw(path, program, found, AXES, SHARES)
        pictures.append(path)
        lines += [f"## {program}", "", f"![{name}]({path.name})", ""]
        lines += [f"- {one.sentence()}" for one in found if not one.at_home] + [""]
    write_text(folder / LIST, "\n".join(lines))
    return pictures
