"""Memory of model graphs: the thesis's table 4.5, MISO's slices, our own runs."""

from __future__ import annotations

import numpy as np

from lab.footprint.evaluate_memory import evaluate_memory
from lab.gate.part import Work


def figures(work: Work) -> dict[str, float]:
    """Return errors and profiles of table 4.5, wrong answers on MISO's slices, errors of own
    runs."""
    found = evaluate_memory(work.advance)
    errors = [case.error for case in found.printed.cases if case.error is not None]
    ours = found.slices.rows[0]
    made = {
        "printed.mean": float(np.mean(errors)),
        "printed.profiles": float(found.printed.profiles_right[0]),
        "miso.false-fits": float(ours.false_fits),
        "miso.false-refusals": float(ours.false_refusals),
    }
    for host in found.host:
        made[f"host.{host.framework}-{host.task}"] = host.mean_error
    return made
