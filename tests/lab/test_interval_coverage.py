"""``python -m lab coverage``: every family's 90 % intervals by situation, in one table."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from lab.__main__ import lab
from lab.experiments.interval_coverage import of_gate
from lab.gate.figure import Figure, Frozen, Part
from lab.gate.results import Results


def covered(name: str, number: int) -> Figure:
    return Figure(
        id=f"{name}.coverage", name="coverage of 90 %, k = 2", data="d", split=f"s{number}",
        source="docs/d.md", better="near", target=0.9, tolerance=0.01,
    )  # fmt: skip


def test_every_family_has_its_situations() -> None:
    done = CliRunner().invoke(lab, ["coverage", "--json"])
    found = json.loads(done.output)["situations"]
    assert len(found) > 30
    families = {one["predicts"].partition(",")[0] for one in found}
    assert {"model graph", "training step", "trust", "kernels", "mig-slices", "llm"} <= families
    assert all(0 < one["coverage"] <= 1 for one in found)
    for one in found:
        within = found_verdict(one["coverage"])
        assert one["verdict"] == within


def found_verdict(coverage: float) -> str:
    return "too narrow" if coverage < 0.85 else "held" if coverage <= 0.95 else "too wide"


def test_what_was_computed_with_this_code_counts_before_what_was_frozen(tmp_path: Path) -> None:
    parts = [
        Part(name=name, module="m", seconds=1, figures=(covered(name, 1), covered(f"{name}2", 2)))
        for name in ("a", "b")
    ]
    results = Results(tmp_path, "sources")
    results.write(parts[0], {"a.coverage": 0.96}, 1.0)
    frozen = {"a2.coverage": Frozen(before=0.8, frozen_from="run", commit="c")}
    (now, before) = of_gate(parts, frozen, results)
    assert (now.predicts, now.coverage, now.verdict, now.source) == (
        "a, k = 2", 0.96, "too wide", "gate",
    )  # fmt: skip
    assert (before.situation, before.verdict, before.source) == ("s2", "too narrow", "gate, frozen")
