"""Submits each job twice to a real Flux, with ``berth.mode=off`` and with a workload, and compares.

A job that Flux takes and starts as its user wrote it is also taken and started with Berth, ends
alike, and has everything that its user chose. What Berth is there to change (the queue where it is
``auto``, properties where none are asked for, nodes, tasks, cores, a longer time) may differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from differential.verdicts import Ask, Verdict, compared, judged_again
from flux_instance import LiveFlux

SUBMITTER = Path(__file__).parent.parent / "submit_pairs.py"
SCRIPT = "job.sh"
MOCKED = "--setattr=system.exec.test.run_duration=10ms"
"""For jobs whose nodes would start an instance of their own: Flux allocates, and mocks the rest."""
_OF_THE_PLACE = re.compile(r"exceeds policy limit|unsatisfiable|infeasible|not feasible")
"""What Flux says to a job that it refuses in one queue and takes in another."""
_BROKERS = ("batch", "alloc")


@dataclass(frozen=True)
class FluxAsk(Ask):
    """One job as a user submits it to Flux."""

    command: str = "submit"


@dataclass
class Seen:
    """What became of one submission, which may have made several jobs (``--cc``)."""

    accepted: bool
    message: str
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, Any]:
        """The first job's jobspec as Flux took it."""
        found: dict[str, Any] = self.jobs[0]["jobspec"] if self.jobs else {}
        return found

    @property
    def started(self) -> bool:
        return bool(self.jobs) and all(_state(job) == "started" for job in self.jobs)

    @property
    def waits_for(self) -> str:
        return next((s for s in map(_state, self.jobs) if s != "started"), "")

    @property
    def hopeless(self) -> bool:
        return self.waits_for.startswith("exception")

    @property
    def stamp(self) -> str:
        mine = self.spec.get("attributes", {}).get("user", {})
        mine = mine.get("berth") if isinstance(mine, dict) else None
        return str(mine.get("decision", "")) if isinstance(mine, dict) else ""

    @property
    def was_edited(self) -> bool:
        return " action=edit " in self.stamp

    @property
    def code(self) -> str:
        """Berth's reason, by its code."""
        found = re.search(r" code=(\S+)", self.stamp)
        return found.group(1) if found else "-"

    @property
    def statuses(self) -> list[int]:
        """With what the jobs ended, of those that ran."""
        return [
            event["context"]["status"]
            for job in self.jobs
            for event in job["events"]
            if event["name"] == "finish"
        ]


def _state(job: Mapping[str, Any]) -> str:
    """``started``, or what the job waits for or failed by."""
    events = {event["name"]: event.get("context", {}) for event in job["events"]}
    if "start" in events:
        return "started"
    if "exception" in events:
        return f"exception {events['exception'].get('type')}"
    if "depend" not in events:
        return "dependency"
    return "held" if _urgency(job) == 0 else "resources"


def _urgency(job: Mapping[str, Any]) -> int:
    return int(job["events"][0]["context"]["urgency"])


def judge(
    flux: LiveFlux, asks: Sequence[FluxAsk], *, settle_s: float = 30.0
) -> list[Verdict[Seen]]:
    """Submit, wait until nothing moves, look, cancel, compare; what differs once more."""
    return judged_again(lambda some: _judge(flux, some, settle_s), asks)


def _judge(flux: LiveFlux, asks: Sequence[FluxAsk], settle_s: float) -> list[Verdict[Seen]]:
    (flux.folder / SCRIPT).write_text("#!/bin/sh\nexec true\n")
    order = {
        "jobs": [_job(ask, off) for ask in asks for off in (True, False)],
        "settle_s": settle_s,
    }
    text = flux.run("python", str(SUBMITTER), stdin=json.dumps(order), timeout_s=600)
    seen = [Seen(one["status"] == 0, one["message"], one["jobs"]) for one in json.loads(text)]
    required = _required(flux)
    return [
        Verdict(ask, plain, placed, differences(ask, plain, placed, required))
        for ask, plain, placed in zip(asks, seen[::2], seen[1::2], strict=True)
    ]


def _job(ask: FluxAsk, off: bool) -> dict[str, Any]:
    """By attributes, else by the environment where the user writes such attributes."""
    words, environment = list(ask.words), {"FLUX_TEST": "1"}
    if any("user" in word and "berth" in word for word in words):
        environment["BERTH_WORKLOAD"] = ask.workload
        if off:
            environment["BERTH_MODE"] = "off"
    else:
        words.insert(0, f"--setattr=user.berth.workload={ask.workload}")
        if off:
            words.insert(0, "--setattr=user.berth.mode=off")
    if ask.command in _BROKERS:
        words.insert(0, MOCKED)
    end = {"batch": [SCRIPT], "alloc": []}.get(ask.command, ["true"])
    return {"command": ask.command, "words": [*words, *end], "env": environment}


def _required(flux: LiveFlux) -> dict[str, list[str]]:
    config = json.loads(flux.run("config", "get"))
    return {name: q.get("requires", []) for name, q in config.get("queues", {}).items()}


def differences(
    ask: FluxAsk, plain: Seen, placed: Seen, required: Mapping[str, Sequence[str]]
) -> list[str]:
    """What Berth broke; nothing where the promise held."""
    found = compared(plain, placed, _OF_THE_PLACE)
    if not plain.accepted or not placed.accepted:
        return found
    if len(plain.jobs) != len(placed.jobs):
        found.append(f"{len(placed.jobs)} jobs, and as written {len(plain.jobs)}")
    if plain.started and placed.started and not any(plain.statuses) and any(placed.statuses):
        found.append(f"ends with {placed.statuses}, and as written with {plain.statuses}")
    if not plain.jobs or not placed.jobs:
        return found
    if not placed.was_edited:
        ours = _without_notes(plain.spec) == _without_notes(placed.spec)
        return found if ours else [*found, "changed without a stamp"]
    return [*found, *_choices_changed(ask, plain.spec, placed.spec, required)]


def _without_notes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A jobspec without what Berth or the pair itself writes."""
    found: dict[str, Any] = json.loads(json.dumps(spec))
    user = found["attributes"].get("user")
    if isinstance(user, dict):
        if isinstance(user.get("berth"), dict):
            for key in ("mode", "workload", "decision", "message"):
                user["berth"].pop(key, None)
            if not user["berth"]:
                user.pop("berth")
        if not user:
            found["attributes"].pop("user")
    for dependency in found["attributes"]["system"].get("dependencies", ()):
        if isinstance(dependency, dict) and dependency.get("scheme") == "begin-time":
            dependency["value"] = "so long after the moment of submitting"
    for key in ("BERTH_MODE", "BERTH_WORKLOAD", "FLUX_JOB_CC"):
        found["attributes"]["system"].get("environment", {}).pop(key, None)
    return found


def _choices_changed(
    ask: FluxAsk, plain: Mapping[str, Any], placed: Mapping[str, Any], required: Mapping[str, Any]
) -> list[str]:
    before, after = _without_notes(plain), _without_notes(placed)
    in_all = after["tasks"][0]["count"].get("total")
    if in_all == _counted(before["resources"])["slot"]:  # as many tasks, in one slot
        after["tasks"][0]["count"] = {"per_slot": 1}
    found = _system_changed(before["attributes"]["system"], after["attributes"]["system"], required)
    found += [
        f"{key} was {before.get(key)}, is {after.get(key)}"
        for key in sorted(before.keys() | after.keys())
        if key not in ("attributes", "resources") and before.get(key) != after.get(key)
    ]
    for key in sorted(before["attributes"].keys() | after["attributes"].keys()):
        if key != "system" and before["attributes"].get(key) != after["attributes"].get(key):
            found.append(f"attributes.{key} was changed")
    return found + _resources_changed(before, after)


def _system_changed(
    before: dict[str, Any], after: dict[str, Any], required: Mapping[str, Any]
) -> list[str]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if key == "queue":
            wrong = was not in (None, "auto", "cpu") and was != now
        elif key == "constraints":
            own = _own_constraints(was, required.get(before.get("queue", ""), []))
            wrong = own is not None and own != _own_constraints(
                now, required.get(after.get("queue", ""), [])
            )
        elif key == "duration":
            wrong = _seconds(now) < _seconds(was)
        else:
            wrong = was != now
        if wrong:
            found.append(f"system.{key} was {was}, is {now}")
    return found


def _own_constraints(value: Any, requires: Sequence[str]) -> Any:
    """Without those that the stock frobnicator adds for the queue; None: no others."""
    if not isinstance(value, dict):
        return None
    if "properties" in value and len(value) == 1:
        return (
            {"properties": own}
            if (own := [p for p in value["properties"] if p not in requires])
            else None
        )
    if requires and len(value.get("and", ())) == 2 and value["and"][1] == {"properties": requires}:
        return value["and"][0]
    return value


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else float("inf")


def _resources_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    if before["resources"] == after["resources"]:
        return []
    was, now = _counted(before["resources"]), _counted(after["resources"])
    found = []
    if was["gpu"] and was["gpu"] != now["gpu"]:
        found.append(f"{was['gpu']} GPUs were asked for and it has {now['gpu']}")
    shape = [kind for kind in ("node", "slot", "core") if was[kind] != now[kind]]
    if '"exclusive": true' in json.dumps(before["resources"]) and shape:
        found.append(f"whole nodes were asked for, and it was {was} and is {now}")
    return found


def _counted(vertices: Sequence[Mapping[str, Any]], times: int = 1) -> dict[str, int]:
    """How many of each there are in all."""
    found = dict.fromkeys(("node", "slot", "core", "gpu"), 0)
    for vertex in vertices:
        count = vertex["count"] if isinstance(vertex["count"], int) else 1
        if vertex["type"] in found:
            found[vertex["type"]] += times * count
        for kind, number in _counted(vertex.get("with", ()), times * count).items():
            found[kind] += number
    return found
