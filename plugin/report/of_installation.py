"""Reports an installation: the doctor's findings, and the state of the running daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth.plugin.findings import Finding
from berth.plugin.report.parts import Column, Part, Table
from berth.plugin.site.changes_now import changes_now
from berth.plugin.site.site import Site

FINDINGS: tuple[Column[Finding], ...] = (
    Column("State", "status", lambda finding: finding.status.value),
    Column("Check", "check", lambda finding: finding.check),
    Column("Finding", "text", lambda finding: finding.text),
    Column("What to do", "advice", lambda finding: finding.advice),
)
"""The columns of the doctor's findings."""
_NOT_DECISIONS = ("stats", "ping")
"""Requests that are counted beside the decisions."""


def findings_table(findings: Sequence[Finding]) -> Table[Finding]:
    """Return a table with a line for each finding, for the page and for programs."""
    return Table("What berth site doctor finds", FINDINGS, findings)


def findings_part(findings: Sequence[Finding]) -> Part:
    """Return each finding as a line, with what to do below it: too long for a terminal's table."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.status.value:<5}{finding.check:<12} {finding.text}")
        if finding.advice:
            lines.append(f"{'':<17} -> {finding.advice}")
    return Part("", lines)


def daemon_part(site: Site, stats: Mapping[str, Any]) -> Part:
    """Return what changes now, and the facts of a daemon's state; ``stats``: its answer
    (docs/protocol.md)."""
    latency, age_s = stats["latency_us"], stats["state_age_s"]
    return Part("", [changes_now(site, stats).sentence], facts=[
        ("version", stats["version"]),
        ("mode", stats["mode"]),
        ("up for", f"{stats['uptime_s']:.0f} s"),
        ("decisions", _counts(stats["counts"], without=_NOT_DECISIONS)),
        ("codes", _counts(stats["codes"])),
        ("latency",
         "-" if latency["p50"] is None else "p50 {p50} us, p99 {p99} us".format(**latency)),
        ("state age", "unknown" if age_s is None else f"{age_s} s"),
        ("candidates", f"{stats['candidates']}"),
        ("workloads", f"{stats['workloads']} ({stats['forecasts']} forecast)"),
        ("recorder", _counts(stats["recorder"], without=("problem",))),
        ("breaker", _breakers(stats["breakers"])),
        ("problems", "; ".join(stats["problems"].values()) or "none"),
    ])  # fmt: skip


def _breakers(breakers: Mapping[str, Mapping[str, float]]) -> str:
    """Return what the submit filters reported of their circuit breakers, in one line."""
    opened = [
        f"{name}: opened {breaker['openings']:.0f} times, "
        f"{breaker['undecided']:.0f} submissions undecided"
        for name, breaker in breakers.items()
        if breaker["undecided"]
    ]
    return "; ".join(opened) or "no submission went by undecided"


def _counts(counts: Mapping[str, int], without: tuple[str, ...] = ()) -> str:
    shown = [f"{name} {count}" for name, count in counts.items() if name not in without]
    return ", ".join(shown) or "none"
