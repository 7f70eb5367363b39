"""Write ``families.json``: the entries of families whose derivation left nothing unexplained."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from berth.predictor.families.language_model.families import TABLE
from berth.predictor.families.language_model.refusals import ENCODERS, SEEING


def write(names: Sequence[str], folder: Path | None) -> int:
    """Derive families and write the table with those that it already has. Returns the exit
    status."""
    from lab.llm.architectures.table import derive  # noqa: PLC0415

    kept = folder / "entries.jsonl" if folder else None
    entries = known_entries(kept)
    for name in names:
        if name in ENCODERS or name in SEEING or (kept is not None and name in entries):
            continue
        derived = derive(name)
        entries[name] = {"entry": derived.entry, "problems": derived.problems}
        if kept is not None:
            with kept.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"name": name, **entries[name]}) + "\n")
        shown = "; ".join(derived.problems[:2]) or "explained"
        print(
            f"{name:28} {len(derived.traces):3} models  {shown[:160]}", file=sys.stderr, flush=True
        )
    TABLE.write_text(text_of(entries), encoding="utf-8")
    return 0


def known_entries(kept: Path | None) -> dict[str, Any]:
    """Return entries that were derived before: of the table, and of an unfinished run."""
    entries: dict[str, Any] = {}
    if TABLE.exists():
        table = json.loads(TABLE.read_text(encoding="utf-8"))
        entries = {k: {"entry": e, "problems": []} for k, e in table["families"].items()}
    if kept is not None and kept.exists():
        entries = {}
        for line in kept.read_text(encoding="utf-8").splitlines():
            read = json.loads(line)
            entries[read.pop("name")] = read
    return entries


def matters(problem: str) -> bool:
    """Return whether a problem keeps a family out: a key that is fixed at its default does not."""
    return not problem.startswith("{")


_COULD_BE_A_SIZE = re.compile(
    r"size|ratio|window|config|chunk|layer(?!_?norm|drop)|block|rate|index|idx|alibi|dim|head|expert"
    r"|rank|period|freq|iters|expand|num_(?!logits|ln|beams)"
)
"""Keys that are harmless in one family and could be a size in another."""


def compact(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its vectors (norms, biases) of equal condition added up."""
    vectors: dict[tuple[str, str, str, str], list[str]] = {}
    matrices = []
    for part, name, repetitions, condition, product in entry["weights"]:
        if "*" in product or part in {"head", "embedding", "lookup"}:
            matrices.append([part, name, repetitions, condition, product])
        else:
            prefix = f"{name.partition('{}')[0]}{{}}." if "{}" in name else ""
            vectors.setdefault((part, f"{prefix}vectors", repetitions, condition), []).append(
                product
            )
    summed = [[*key, " + ".join(products)] for key, products in vectors.items()]
    return {**entry, "weights": matrices + summed}


def _compact_seeing(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "entry": compact(entry["entry"])}


def text_of(entries: Mapping[str, Any], seeing: Mapping[str, Any]) -> str:
    """Return the table as JSON text, a line for each family and each model that sees."""
    listed = {
        name: compact(made["entry"])
        for name, made in sorted(entries.items())
        if made["entry"] and not any(map(matters, made["problems"]))
    }
    structural = {
        key
        for entry in listed.values()
        for key in (*entry["defaults"], *entry["fixed"], *entry["aliases"])
    }  # fmt: skip
    harmless = sorted(
        k
        for k in {k for e in listed.values() for k in e["harmless"]} - structural
        if not _COULD_BE_A_SIZE.search(k)
    )
    lines = [f"{json.dumps(n)}: {json.dumps(e, separators=(',', ':'))}" for n, e in listed.items()]
    outer = [
        f"{json.dumps(n)}: {json.dumps(_compact_seeing(made['entry']), separators=(',', ':'))}"
        for n, made in sorted(seeing.items())
        if made["entry"] and not any(map(matters, made["problems"]))
    ]
    return (
        '{"harmless": '
        + json.dumps(harmless)
        + ',\n"composites": {\n'
        + ",\n".join(outer)
        + '\n},\n"families": {\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
