"""Thousands of pairs in batches: each a line of a report that goes on where it was stopped."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from differential.verdicts import Verdict


def batch_row(
    world: str, seed: int, verdicts: Sequence[Verdict[Any]], begun: float
) -> dict[str, Any]:
    """One line: ``begun`` is when the batch did, by the monotonic clock."""
    taken = [v for v in verdicts if v.plain.accepted]
    return {
        "world": world,
        "seed": seed,
        "pairs": len(verdicts),
        "accepted": len(taken),
        "started": sum(v.plain.started for v in taken),
        "edited": sum(v.placed.was_edited for v in taken),
        "differences": [str(v) for v in verdicts if v.differences],
        "once": [str(v) for v in verdicts if v.once],
        "options": [
            [option, v.placed.was_edited, v.placed.code] for v in taken for option in v.ask.traits
        ],
        "seconds": round(time.monotonic() - begun, 1),
    }


def rows(report: Path) -> list[dict[str, Any]]:
    """What a report holds already."""
    if not report.exists():
        return []
    return [json.loads(line) for line in report.read_text().splitlines() if line.strip()]


def seeds_left(
    report: Path, worlds: Sequence[str], *, pairs: int, batch: int, first: int
) -> dict[str, list[int]]:
    """The seeds by world that make up ``pairs`` and are not in the report; worlds take turns."""
    done = {(row["world"], row["seed"]) for row in rows(report)}
    batches = -(-pairs // batch)
    return {
        world: [
            seed
            for seed in range(first + index, first + batches, len(worlds))
            if (world, seed) not in done
        ]
        for index, world in enumerate(worlds)
    }


def add(report: Path, row: dict[str, Any]) -> None:
    """Append a batch, and print it."""
    report.parent.mkdir(parents=True, exist_ok=True)
    with report.open("a") as file:
        file.write(json.dumps(row) + "\n")
    where = f"{row['world']} seed {row['seed']}"
    for one in row["differences"]:
        print(f"DIFFERENCE {where}: {one}", flush=True)
    for one in row["once"]:
        print(f"once, not again {where}: {one}", flush=True)
    print(f"{where}: {row['edited']}/{row['accepted']} in {row['seconds']} s", flush=True)


def summary(report: Path) -> int:
    """Print the totals, the share moved by option and the differences; 1 where there are any."""
    found = rows(report)
    pairs, accepted, started, edited = (
        sum(row[key] for row in found) for key in ("pairs", "accepted", "started", "edited")
    )
    print(
        f"\n{pairs} pairs, {accepted} accepted as written, {started} of them started, "
        f"{edited} moved by Berth ({edited / max(1, accepted):.0%})"
    )
    _by_option(row for batch in found for row in batch["options"])
    for title in ("once", "differences"):
        those = [f"{b['world']} seed {b['seed']}: {one}" for b in found for one in b[title]]
        print(f"{len(those)} {'differences' if title != 'once' else 'that did not show again'}")
        for one in those:
            print(f"  {one}")
    return 1 if any(batch["differences"] for batch in found) else 0


def _by_option(those: Iterable[Sequence[Any]]) -> None:
    asked: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    codes: dict[str, Counter[str]] = {}
    for option, was_edited, code in those:
        asked[option] += 1
        moved[option] += was_edited
        codes.setdefault(option, Counter())[code] += 1
    for option in sorted(asked):
        most = ", ".join(f"{code} {n}" for code, n in codes[option].most_common(3))
        print(f"  {option:22} {moved[option]:4}/{asked[option]:<4} moved   {most}")
