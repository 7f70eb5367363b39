"""Explains what a decision was based on, and what would make it better."""

from __future__ import annotations

from collections.abc import Mapping

from berth.plugin.store import DecisionRecord
from berth.policies.codes import Ground

_SENTENCES: Mapping[str, str] = {
    Ground.FIT: "based on fit: the places that take the job as written, the earliest start and the "
    "fastest nodes first; nothing usable was predicted of its time",
    Ground.KERNELS: "based on the ratio of benchmark kernels between kinds of nodes (berth site "
    "calibrate): no program's runs on two kinds are known yet",
    Ground.POPULATION: "based on the ratio of this site's programs between kinds of nodes, and on "
    "this program's runs if there are any",
    Ground.RUNS: "based on runs of this program, on this kind of nodes too",
    Ground.MEASURED: "based on a pilot of this program",
    Ground.DESCRIBED: "based on the description of the model that it runs",
}
_BETTER: Mapping[str, str] = {
    Ground.FIT: "better with: runs of it that Berth knows (berth jobs history import), or a pilot "
    "(berth pilot run -- CMD)",
    Ground.KERNELS: "better with: runs of programs on each kind of nodes (berth jobs history "
    "import), or a pilot (berth pilot run -- CMD)",
    Ground.POPULATION: "better with: runs of it on each kind of nodes, or a pilot (berth pilot run "
    "-- CMD)",
    Ground.RUNS: "better with: a pilot, where its input or size changes (berth pilot run -- CMD)",
}


def ground_sentences(decision: DecisionRecord | None) -> list[str]:
    """Return what a decision was based on, and what would make it better; empty where it chose no
    place."""
    ground = "" if decision is None else decision.ground or ""
    return [words[ground] for words in (_SENTENCES, _BETTER) if ground in words]
