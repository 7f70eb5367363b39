"""The ablations as text: a table for each experiment, and what became of the paper's claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from berth.pilot.documents import write_text
from lab.published.xamm.ablation import Found, Score, as_rows
from lab.published.xamm.choices import Choices, Embedding, Machines
from lab.published.xamm.plan import (
    ATTENTION,
    EXPERIMENTS,
    NAMED,
    PLAIN,
    label,
    tried,
)

SPLIT = (
    "leave-one-application-out (applications weigh the same), anchor kernels in no test; "
    "errors of the runtime ratio t_target / t_source; mean over seeds [least, greatest]"
)
HEADER = ("scenario", "way", "MAPE", "median error", "R2 (log)")
CLAIMS: tuple[tuple[str, Choices, Choices], ...] = (
    (
        "attention against raw counters, neither told the machines",
        PLAIN,
        Choices(machines=Machines.NONE),
    ),
    (
        "attention against raw counters, both told the machines' names",
        NAMED,
        Choices(machines=Machines.NAMES),
    ),
    (
        "AMM against nothing, raw counters",
        PLAIN,
        Choices(embedding=Embedding.RAW),
    ),
    (
        "AMM against names, raw counters",
        NAMED,
        Choices(embedding=Embedding.RAW),
    ),
    (
        "AMM against nothing, attention",
        Choices(machines=Machines.NONE),
        ATTENTION,
    ),
    ("attention + AMM against raw", PLAIN, ATTENTION),
    ("attention + AMM against raw + names", NAMED, ATTENTION),
)


def table(found: Found, ways: Sequence[Choices]) -> list[tuple[str, ...]]:
    """One row a way, in the order of ``HEADER``."""
    return [
        (
            found.scenario.name,
            label(way),
            _spread(found.score(way).mape),
            _spread(found.score(way).median_error),
            _spread(found.score(way).r2_log, "{:.2f}"),
        )
        for way in ways
    ]


def verdict(found: Found, before: Choices, after: Choices) -> tuple[str, ...] | None:
    """Change of MAPE and of the median error, seed by seed; None where one was not tried."""
    ways = tried(found.scenario)
    if before not in ways or after not in ways:
        return None
    old, new = found.score(before), found.score(after)
    return (
        found.scenario.name,
        _change(old, new, "mape"),
        _change(old, new, "median_error"),
    )


def markdown(
    all_found: Sequence[Found],
    seeds: Sequence[int],
    pictures: Sequence[str],
    parted: Sequence[Sequence[str]],
) -> str:
    """The report; ``parted``: rows of ``pictures.embeddings``."""
    lines = [
        "# xAMM: what attention and machine models bring",
        "",
        f"Split: {SPLIT} ({', '.join(map(str, seeds))}).",
        "",
        *(
            f"- {f.scenario.name}: {f.samples} held-out (workload, source, target) from "
            f"{', '.join(f.scenario.sources)}"
            for f in all_found
        ),
        "",
        "## The claims, each against the same folds without",
        "",
        "Relative change of the error, below 0: less error. Better in all seeds, in none, or in "
        "some: a change within the spread over seeds is no change.",
    ]
    for claim, before, after in CLAIMS:
        told = [v for f in all_found if (v := verdict(f, before, after)) is not None]
        lines += ["", f"### {claim}", "", *_markdown(("scenario", "MAPE", "median error"), told)]
    seen = [f for f in all_found if not f.scenario.unseen_target]
    for experiment in EXPERIMENTS:
        lines += ["", f"## {experiment.name}", "", f"{experiment.question[0].upper()}"
                  f"{experiment.question[1:]}.", ""]  # fmt: skip
        lines += _markdown(HEADER, [row for f in seen for row in table(f, experiment.choices)])
    for f in all_found:
        if f.scenario.unseen_target:
            lines += ["", "## 5. A target never trained on", ""]
            lines += ["Only its signature is known; the machines cannot be told by name.", ""]
            lines += _markdown(HEADER, table(f, tried(f.scenario)))
    if parted:
        lines += ["", "## Do embeddings part the machines?", ""]
        lines += ["Silhouettes; learnt on all rows, so a picture and not a test.", ""]
        lines += _markdown(("embedding", "by machine", "by application"), parted)
    if pictures:
        lines += ["", "## Pictures", "", *(f"![{p}]({p})" for p in pictures)]
    return "\n".join(lines) + "\n"


def write_report(
    all_found: Sequence[Found],
    seeds: Sequence[int],
    folder: Path,
    pictures: Sequence[str],
    parted: Sequence[Sequence[str]],
) -> None:
    """``report.md`` and ``xamm.json`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "report.md", markdown(all_found, seeds, pictures, parted))
    data = {
        "split": SPLIT,
        "seeds": list(seeds),
        "rows": [r for f in all_found for r in as_rows(f)],
    }
    write_text(folder / "xamm.json", json.dumps(data, indent=1) + "\n")


def _spread(values: Sequence[float], form: str = "{:.0%}") -> str:
    mean, low, high = (form.format(v) for v in (np.mean(values), min(values), max(values)))
    return f"{mean} [{low}, {high}]"


def _change(old: Score, new: Score, figure: str) -> str:
    before, after = np.array(getattr(old, figure)), np.array(getattr(new, figure))
    change = after / before - 1
    better = int((change < 0).sum())
    how = {0: "worse in all seeds", len(change): "better in all seeds"}.get(
        better, f"better in {better} of {len(change)} seeds"
    )
    return f"{change.mean():+.0%} [{change.min():+.0%}, {change.max():+.0%}], {how}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|---" * len(header) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
