"""Intervals, abstention and advised probes of the cost model on AIWC."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.relative import families
from lab.relative.data import aiwc_rows
from lab.relative.uncertainty import of_family

PROBES = {
    "probes.none": "no probe",
    "probes.one": "one, advised",
    "probes.two": "two, advised at once",
    "probes.two-in-turn": "two, advised one after the other",
}


def figures(work: Work) -> dict[str, float]:
    """Coverage, Winkler score, area under the risk-coverage curve, regret after probes."""
    resume = Resume(work.folder)
    found = of_family(aiwc_rows(), families.COST_MODEL, work.seed, resume, work.advance)
    by_score = {one.score: one for one in found.abstention}
    return {
        "coverage": found.intervals.coverage,
        "coverage.worst": found.intervals.worst_application,
        "winkler": found.intervals.winkler,
        "abstention.expected-regret": by_score["expected regret"].area_regret,
        **{name: found.probing.regret[way] for name, way in PROBES.items()},
    }
