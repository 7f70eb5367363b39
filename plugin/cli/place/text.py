"""What ``berth place`` prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from berth.pilot.units import format_seconds
from berth.plugin.cli.output.forecast_text import memory_cells, sources_json, sources_text
from berth.plugin.placing import Placing
from berth.plugin.report.terminal import columns
from berth.plugin.site.site import Site
from berth.policies.objectives.protocol import CURRENCY
from berth.policies.sentences import UNCERTAIN, resources
from berth.policies.values import Ranked
from berth.predictor.core.prediction import Basis, Interval

DECISION_SCHEMA = "berth.decision/1"


def as_text(
    placing: Placing, site: Site, command: Sequence[str] | None, *, explain: bool = False
) -> str:
    """The decision, why, all alternatives, and the exact line to submit.

    ``explain``: also what each score is made of, and the sources of each time.
    """
    decision = placing.decision
    lines = [f"Decision: {decision.chosen or 'leave the job as it is'}  [{decision.code}]"]
    lines.append(f"  {decision.reason}")
    chosen = decision.ranked[0] if decision.chosen else None
    if chosen is not None and chosen.warning:
        lines.append(f"  WARNING: {chosen.warning}. {_advice(chosen)}".rstrip())
    lines.extend(f"  Note: {note}" for note in placing.notes)
    fits = [r for r in decision.ranked if r.score is not None]
    if fits:
        first = sum(not r.guess for r in fits)
        lines += ["", columns(*alternatives(placing, site.currency), first=first)]
    if explain and fits:
        scores = [(r.candidate, f"{r.score:.4g}", _terms(placing, r, site.currency)) for r in fits]
        titles = ("candidate", f"{decision.policy} (smaller is better)", "made of")
        lines += ["", columns(titles, scores)]
    excluded = ruled_out(placing)
    if excluded:
        lines += ["", columns(("ruled out", "platform", "why"), excluded)]
    if explain:
        platforms = dict.fromkeys(r.platform for r in fits)
        lines += ["", "  sources of each time, with their weights"]
        lines += [
            f"    {name}: {line.strip()}"
            for name in platforms
            for line in sources_text(placing.forecast, name)
        ]
    if command is not None:
        lines += ["", f"  {shlex.join(command)}"]
    lines += [
        "",
        f"  policy {decision.policy}, site {site.name}, bundle {decision.bundle[:19]}, "
        f"decision {decision.id}",
    ]
    return "\n".join(lines)


def alternatives(placing: Placing, currency: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A header, and a row for each place where it can run, best first."""
    of = "" if placing.forecast.whole_job else f" per {placing.forecast.unit.value}"
    header = (
        "candidate", "platform", "resources", f"time{of} (90 %)", "speedup",
        "host memory <=", "GPU memory <=", "cost", "basis",
    )  # fmt: skip
    return header, [_row(r, currency) for r in placing.decision.ranked if r.score is not None]


def ruled_out(placing: Placing) -> list[tuple[str, str, str]]:
    """Candidate, platform and reason of each place where it cannot run or may not."""
    return [
        (r.candidate, r.platform, f"[{r.code}] {r.excluded}")
        for r in placing.decision.ranked
        if r.score is None
    ]


def as_json(placing: Placing, site: Site, command: Sequence[str] | None) -> dict[str, Any]:
    """The Decision as plain data, with the submitting command (null: nothing to submit)."""
    decision = asdict(placing.decision)
    # The makespan is of arrays only, which this command does not place.
    rows = [_row_json(row) for row in decision["ranked"]]
    decision["ranked"] = [{k: v for k, v in row.items() if k != "makespan"} for row in rows]
    return {
        "schema": DECISION_SCHEMA,
        **decision,
        "site": site.name,
        "currency": site.currency,
        "workload": placing.request.workload,
        "kind": placing.forecast.kind,
        "unit": placing.forecast.unit.value,
        "families": list(placing.forecast.families),
        "sources": {name: sources_json(placing.forecast, name) for name in placing.forecast.curves},
        "notes": list(placing.notes),
        "terms": {
            name: [term._asdict() for term in terms] for name, terms in placing.terms.items()
        },
        "command": None if command is None else list(command),
    }


def _row_json(row: Ranked) -> dict[str, Any]:
    """Of a row whose parts are plain data already."""
    cells = row._asdict()
    memory = cells.pop("memory") or {}
    return {
        **cells,
        "host_memory_bytes": memory.get("host_bytes"),
        "gpu_memory_bytes": memory.get("gpu_bytes"),
    }


def _row(row: Ranked, currency: str) -> tuple[str, ...]:
    time, speedup = row.runtime_s, row.speedup
    return (
        row.candidate,
        row.platform,
        resources(row.resources),
        "-" if time is None else _interval(time),
        "-" if speedup is None else f"{speedup.mid:.3g}x",
        *memory_cells(row.memory),
        "-" if row.cost is None else f"{row.cost:.3g} {currency}",
        _basis(row),
    )


def _terms(placing: Placing, row: Ranked, currency: str) -> str:
    """``predicted time 60 s, cost 0.2 EUR``."""
    found = placing.terms.get(row.candidate, ())
    units = {CURRENCY: currency}
    texts = (f"{t.name} {t.value:.4g} {units.get(t.unit, t.unit)}".rstrip() for t in found)
    return ", ".join(texts)


def _interval(time: Interval) -> str:
    low, mid, high = (format_seconds(value) for value in (time.low, time.mid, time.high))
    return f"{mid} ({low} - {high})"


def _basis(row: Ranked) -> str:
    """What the numbers stand on; loud where the submit filter would not act on them."""
    if row.guess and row.basis is not Basis.PRIOR:
        return "GUESS"
    basis = "PRIOR ONLY" if row.basis is Basis.PRIOR else str(row.basis or "-")
    return f"{basis} ({UNCERTAIN})" if row.warning and UNCERTAIN in row.warning else basis


def _advice(row: Ranked) -> str:
    if row.guess or row.basis is Basis.PRIOR:
        return "The submit filter may not act on it; --strict decides as the filter does."
    return ""
