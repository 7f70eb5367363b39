"""Reports where a workload should run: the decision, all candidates, and the submit command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from berth.plugin.placing import Placing
from berth.plugin.report.of_forecast import sources_data, sources_part
from berth.plugin.report.parts import Column, Part, Report, Table, at_most, interval
from berth.plugin.site.site import Site
from berth.policies.objectives import OBJECTIVES
from berth.policies.objectives.protocol import CURRENCY
from berth.policies.sentences import UNCERTAIN, resources
from berth.policies.values import Ranked
from berth.predictor.core.prediction import Basis, MemoryUse

DECISION_SCHEMA = "berth.decision/1"


def _basis(row: Ranked) -> str:
    """Return the basis of the candidate's prediction as text, in capitals where the submit filter
    would not act on it."""
    if row.guess and row.basis is not Basis.PRIOR:
        return "GUESS"
    basis = "PRIOR ONLY" if row.basis is Basis.PRIOR else str(row.basis or "-")
    return f"{basis} ({UNCERTAIN})" if row.warning and UNCERTAIN in row.warning else basis


def _memory(row: Ranked) -> MemoryUse:
    return row.memory or MemoryUse()


def candidate_columns(unit: str, currency: str) -> tuple[Column[Ranked], ...]:
    """Make the columns of candidates; ``unit``: the unit of work that a time is for, such as
    ``step``; empty: the whole job."""
    return (
        Column("Candidate", "candidate", lambda row: row.candidate),
        Column("Platform", "platform", lambda row: row.platform),
        Column("Resources", "uses", lambda row: resources(row.resources)),
        interval(f"Time per {unit}" if unit else "Time", "runtime_s", lambda row: row.runtime_s),
        interval("Speedup", "speedup", lambda row: row.speedup, "{:.3g}x".format, unit=""),
        at_most("Host memory <=", "host_memory_bytes", lambda row: _memory(row).host_bytes),
        at_most("GPU memory <=", "gpu_memory_bytes", lambda row: _memory(row).gpu_bytes),
        Column("Cost", "cost", lambda row: row.cost, lambda cost: f"{cost:.3g} {currency}",
               currency, kind=float),
        Column("Basis", "basis", lambda row: row.basis and row.basis.value, words=_basis),
    )  # fmt: skip


RULED_OUT: tuple[Column[Ranked], ...] = (
    Column("Candidate", "candidate", lambda row: row.candidate),
    Column("Platform", "platform", lambda row: row.platform),
    Column("Why", "excluded", lambda row: row.excluded,
           words=lambda row: f"[{row.code}] {row.excluded}"),
)  # fmt: skip
"""The columns of candidates where the job cannot or may not run."""


def fitting_table(placing: Placing, currency: str) -> Table[Ranked]:
    """Return a table with a line for each candidate where the job can run, best first."""
    forecast = placing.forecast
    columns = candidate_columns("" if forecast.whole_job else forecast.unit.value, currency)
    rows = [row for row in placing.decision.ranked if row.score is not None]
    caption = "Places where it can run, best first"
    return Table(caption, columns, rows, [row.guess for row in rows])


def ruled_out_table(placing: Placing) -> Table[Ranked]:
    """Return a table with a line for each candidate where the job cannot or may not run, with the
    reason."""
    rows = [row for row in placing.decision.ranked if row.score is None]
    return Table("Ruled out", RULED_OUT, rows)


def scores_table(placing: Placing, currency: str) -> Table[Ranked]:
    """Return a table with the terms of each candidate's score."""
    policy = placing.decision.policy
    objective = OBJECTIVES.load(policy)
    columns: tuple[Column[Ranked], ...] = (
        Column("Candidate", "candidate", lambda row: row.candidate),
        Column(
            f"{policy} (smaller is better)",
            "score",
            lambda row: row.score,
            words=lambda row: objective.score_text(row.score or 0.0, row.cost),
            kind=float,
        ),
        Column("Made of", "terms", lambda row: _terms(placing, row, currency)),
    )
    rows = [row for row in placing.decision.ranked if row.score is not None]
    return Table("What each score is made of", columns, rows)


def _terms(placing: Placing, row: Ranked, currency: str) -> str:
    """Return the terms of a score as text: ``predicted time 60 s, cost 0.2 EUR``."""
    terms, units = placing.terms.get(row.candidate, ()), {CURRENCY: currency}
    texts = (f"{t.name} {t.value:.4g} {units.get(t.unit, t.unit)}".rstrip() for t in terms)
    return ", ".join(texts)


def placement_report(
    placing: Placing, site: Site, command: Sequence[str] | None, *, explain: bool = False
) -> Report:
    """Return the report of the decision with its reason, all candidates, and the submit command.

    ``explain``: also the terms of each score, and the sources of each time.
    """
    decision = placing.decision
    chosen = decision.ranked[0] if decision.chosen else None
    lines = [decision.reason]
    if chosen is not None and chosen.warning:
        lines.append(f"WARNING: {chosen.warning}. {_advice(chosen)}".rstrip())
    lines += [f"Note: {note}" for note in placing.notes]
    fitting = fitting_table(placing, site.currency)
    tables = [fitting, scores_table(placing, site.currency)] if explain else [fitting]
    tables = [table for table in (*tables, ruled_out_table(placing)) if table.records]
    headline = f"Decision: {decision.chosen or 'leave the job as it is'}  [{decision.code}]"
    parts = [Part(headline, lines)]
    if tables:
        parts.append(Part("", tables=tables))
    if explain:
        parts.append(sources_part(placing.forecast, {row.platform: 0 for row in fitting.records}))
    if command is not None:
        parts.append(Part("", verbatim=shlex.join(command)))
    made_by = (
        f"policy {decision.policy}, site {site.name}, bundle {decision.bundle[:19]}, "
        f"decision {decision.id}"
    )
    return Report("", "", [*parts, Part("", [made_by])])


def _advice(row: Ranked) -> str:
    """Return whether the submit filter acts on the candidate's prediction; empty: as on others."""
    if row.guess:
        return "The submit filter may not act on it; --strict decides as the filter does."
    if row.basis is Basis.PRIOR:
        return "This site acts on such predictions (policy.allow_prior)."
    return ""


def placement_data(placing: Placing, site: Site, command: Sequence[str] | None) -> dict[str, Any]:
    """Return the Decision for JSON, with the submit command (null: nothing to submit)."""
    decision = asdict(placing.decision)
    uses = {row["candidate"]: row for row in fitting_table(placing, site.currency).data()}
    decision["ranked"] = [
        _row_data(row) | uses.get(row.candidate, {}) for row in decision["ranked"]
    ]
    return {
        "schema": DECISION_SCHEMA,
        **decision,
        "site": site.name,
        "currency": site.currency,
        "workload": placing.request.workload,
        "kind": placing.forecast.kind,
        "unit": placing.forecast.unit.value,
        "families": list(placing.forecast.families),
        "sources": {name: sources_data(placing.forecast, name) for name in placing.forecast.curves},
        "notes": list(placing.notes),
        "terms": {
            name: [term._asdict() for term in terms] for name, terms in placing.terms.items()
        },
        "command": None if command is None else list(command),
    }


def _row_data(row: Ranked) -> dict[str, Any]:
    """Return a candidate as plain data, without the makespan: only job arrays have one, and ``berth
    place`` never places arrays."""
    data = row._asdict() | {"ratio_log_width": row.known_ratio_log_width}
    memory = data.pop("memory") or {}
    del data["makespan"]
    return {
        **data,
        "host_memory_bytes": memory.get("host_bytes"),
        "gpu_memory_bytes": memory.get("gpu_bytes"),
    }
