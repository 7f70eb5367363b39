"""Whether every job of a burst is the one that was submitted, and every change is explained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flux_instance import LiveFlux

from berth.plugin.store import Store

BURST = Path(__file__).with_name("burst.py")
_CHANGED = "action=edit"


@dataclass
class Verdict:
    """What was found; ``wrong`` is empty when all is well."""

    accepted: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    """How jobs came out: ``placed``, ``kept`` (answered), ``untouched`` (no answer)."""
    wrong: list[str] = field(default_factory=list)


def submit(flux: LiveFlux, count: int, *, first: int = 0, **order: Any) -> dict[str, Any]:
    """Submit ``count`` jobs on all brokers at once; see ``burst.py``."""
    full = {"uris": flux.uris(), "first": first, "count": count, **order}
    text = flux.run("python", str(BURST), "submit", json.dumps(full), timeout_s=1800)
    found: dict[str, Any] = json.loads(text)
    found["ids"] = {int(number): job for number, job in found["ids"].items()}
    return found


def verify(flux: LiveFlux, ids: Mapping[int, int], store: Store | None, queue: str) -> Verdict:
    """Look at every job of ``ids`` (by number), submitted for ``queue``."""
    text = flux.run(
        "python", str(BURST), "fetch", stdin=json.dumps(list(ids.values())), timeout_s=1800
    )
    specs = {int(job): spec for job, spec in json.loads(text).items()}
    verdict = Verdict(accepted=len(ids))
    for number, job in ids.items():
        spec = specs.get(job)
        if spec is None:
            verdict.wrong.append(f"job {number} is lost")
            continue
        problem = _look_at(number, spec, store, queue, verdict.codes)
        if problem is not None:
            verdict.wrong.append(f"job {number}: {problem}")
    return verdict


def _look_at(
    number: int, spec: dict[str, Any], store: Store | None, queue: str, codes: Counter[str]
) -> str | None:
    attributes = spec["attributes"]
    system, user = attributes["system"], attributes["user"]
    if spec["tasks"][0]["command"] != ["true", f"job-{number}"] or user["test"] != {"n": number}:
        return f"is another: {spec['tasks']} {user}"
    if system["duration"] != 600 + number % 1000:
        return f"has another duration: {system['duration']}"
    (slot,) = spec["resources"]
    has = {leaf["type"]: leaf["count"] for leaf in slot["with"]}
    stamp = user.get("berth", {}).get("decision")
    if stamp is None:
        codes["untouched"] += 1
        same = system["queue"] == queue and has == {"core": 1} and slot["count"] == 1
        return None if same else f"was changed without a decision: {system['queue']} {has}"
    words = dict(word.split("=", 1) for word in stamp.split()[1:])
    record = None if store is None else store.decisions.get(words["id"])
    if record is None:
        return f"nobody recorded {stamp}"
    edits = json.loads(record.edits) if _CHANGED in stamp else {}
    codes["placed" if edits else "kept"] += 1
    expected: dict[str, Any] = {"core": edits.get("cpus_per_task", 1)}
    if "gres" in edits:
        expected["gpu"] = int(edits["gres"].rpartition(":")[2])
    if has != expected or system["queue"] != edits.get("queue", queue):
        return f"is {system['queue']} {has}, its decision says {edits}"
    return None
