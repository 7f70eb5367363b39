"""The evaluation of trust as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from berth.pilot.documents import write_text
from lab.relative.probing import WAYS
from lab.relative.trust_run import TrustEvaluation

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""Title, header, rows."""


def tables(found: TrustEvaluation) -> list[Table]:
    """All tables, a family a line (abstention: a score a line)."""
    return [
        (
            "Intervals, nominal 90 %, of log time",
            ("family", "coverage", "its 90 % interval", "worst application", "Winkler",
             "of one width", "upper / middle"),
            [_intervals(found, n) for n in range(len(found.results))],
        ),
        (
            "Abstention: area under the risk-coverage curve (random: the mean), and what is "
            "answered at the threshold that 80 % of the training weight is under",
            ("family", "score", "log regret", "random", "log error", "random",
             "answered", "its regret", "its log error"),
            [row for n in range(len(found.results)) for row in _abstention(found, n)],
        ),
        (
            "Probes: geometric-mean regret of the pick / of the worst application",
            ("way", *(r.family for r in found.results)),
            _probing(found),
        ),
    ]  # fmt: skip


def write_trust_report(found: TrustEvaluation, folder: Path) -> None:
    """``trust.md`` and ``trust.json`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "trust.json", json.dumps(found.as_dict(), indent=1) + "\n")
    lines = [
        "# How far predictions of many platforms can be trusted",
        "",
        f"{found.data}: {found.rows} rows of {found.applications} applications, piloted on "
        f"`{found.reference}`; seed {found.seed}. Split: {found.split}.",
    ]
    for title, header, rows in tables(found):
        lines += ["", f"## {title}", "", _line(header), "|---" * len(header) + "|"]
        lines += [_line(row) for row in rows]
    lines += ["", "## Coverage by platform", ""]
    for result in found.results:
        told = ", ".join(f"{n} {c:.0%}" for n, c in result.intervals.by_platform.items())
        lines.append(f"- {result.family}: {told}")
    lines += [f"- {group}: left out, {why}" for group, why in found.left_out.items()]
    write_text(folder / "trust.md", "\n".join(lines) + "\n")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _intervals(found: TrustEvaluation, n: int) -> tuple[str, ...]:
    result = found.results[n]
    i = result.intervals
    return (
        result.family,
        f"{i.coverage:.1%}",
        f"{i.coverage_low:.0%} to {i.coverage_high:.0%}",
        f"{i.worst_application:.0%}",
        f"{i.winkler:.2f}",
        f"{i.winkler_constant:.2f}",
        f"{i.factor:.1f}",
    )


def _abstention(found: TrustEvaluation, n: int) -> list[tuple[str, ...]]:
    result = found.results[n]
    return [
        (
            result.family,
            a.score,
            f"{a.area_regret:.3f}",
            f"{a.random_area_regret:.3f}",
            f"{a.area_error:.3f}",
            f"{a.random_area_error:.3f}",
            f"{a.answered:.0%}",
            f"{a.answered_regret:.3f}",
            f"{a.answered_error:.3f}",
        )
        for a in result.abstention
    ]


def _probing(found: TrustEvaluation) -> list[tuple[str, ...]]:
    shown = [
        (
            way,
            *(
                f"{r.probing.regret[way]:.3f} / {r.probing.worst_regret[way]:.2f}"
                for r in found.results
            ),
        )
        for way in WAYS
    ]
    told = [(r.probing.told_now, r.probing.told_one, r.probing.told_two) for r in found.results]
    shown += [
        (f"told beforehand: {words}", *(f"{t[n]:.3f}" for t in told))
        for n, words in enumerate(("no probe", "one, advised", "two, advised at once"))
    ]
    return shown
