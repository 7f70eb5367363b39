"""A site that has been used for ten days, as the page shows it in its test and in the documents."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_profiles import profile
from ui_store import REQUEST, decision

from berth.pilot.documents import to_json, write_json
from berth.plugin.report.of_replay import compared_parts
from berth.plugin.report.parts import Report
from berth.plugin.scheduler import ClusterFacts, NodeFacts, PresentJob, QueueFacts
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.slurm.scheduler import Slurm
from berth.plugin.store import DecisionRecord, PlacedRun, Store, WorkloadRecord
from berth.plugin.ui.guard import UiSettings
from berth.plugin.workloads.described_models import DecoderShape, described
from berth.plugin.workloads.files import WorkloadOptions
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.documents import FleetDocument, plan_document, states_of
from berth.policies.mig.planner import plan
from berth.policies.tuning.figures import ReplayFigures

USERS = ("alice", "bob", "carol")
JOBS = 60
HOUR_S = 3_600.0
TIMES_S = {"stream": (("broadwell", "quartz", 600.0), ("v100", "lassen-v100", 150.0)),
           "melt": (("broadwell", "quartz", 1_800.0), ("v100", "lassen-v100", 2_400.0)),
           "relax": (("broadwell", "quartz", 5_400.0), ("v100", "lassen-v100", 900.0))}  # fmt: skip
"""By workload: candidate, platform and time, the one of the reference partition first."""
FLEET = {
    "schema": "berth.mig-fleet/1",
    "gpus": [
        {"name": "n1/0", "model": "A100-40GB", "layout": ["3g.20gb@0", "1g.5gb@4"],
         "running": [{"instance": "1g.5gb@4"}]},
        {"name": "n1/1", "model": "A100-40GB", "layout": ["7g.40gb@0"]},
        {"name": "n2/0", "model": "A100-40GB", "layout": ["2g.10gb@0", "2g.10gb@2", "3g.20gb@4"],
         "running": [{"instance": "2g.10gb@2"}, {"instance": "3g.20gb@4"}]},
        {"name": "n2/1", "model": "A100-40GB", "mig_enabled": False},
    ],
}  # fmt: skip


def lively(folder: Path) -> UiSettings:
    """Site file, store, and fleet with its plan, all in ``folder``."""
    site, store_file = folder / "berth.toml", folder / "store.db"
    text = DEMO_FILE.read_text().replace('mode = "shadow"', 'mode = "enforce"')
    site.write_text(f'{text}\n[daemon]\nstore = "{store_file}"\n')
    store = Store.open(str(store_file))
    _fill(store)
    store.close()
    fleet, planned = folder / "fleet.json", folder / "plan.json"
    fleet.write_text(json.dumps(FLEET))
    document = FleetDocument.model_validate(FLEET)
    wanted = [Demand("bert", (SliceOption("2g.10gb", throughput=1.0),), count=4)]
    states = states_of(document, source="fleet.json")
    write_json(planned, plan_document(plan(states, wanted, "jobs"), document))
    return UiSettings(site_file=site, fleet=fleet, plan=planned)


def _fill(store: Store) -> None:
    random, now_s = np.random.default_rng(16), time.time()
    for name in TIMES_S:
        document = to_json(profile(name))
        store.add(WorkloadRecord(name, "program", f"sha256:{name}", document, "", now_s))
    small = described(DecoderShape(4, 512), "inference", sequence=128, options=WorkloadOptions())
    store.add(WorkloadRecord("small", "model-graph", small.digest, to_json(small.document), "",
                             now_s))  # fmt: skip
    decisions, outcomes = [], []
    for number in range(JOBS):
        name = sorted(TIMES_S)[number % len(TIMES_S)]
        user = USERS[number // len(TIMES_S) % len(USERS)]
        at_s = now_s - (JOBS - number) * 4 * HOUR_S
        made = _decided(number, name, user, at_s)
        decisions.append(made)
        if made.chosen is None:
            continue
        rows = json.loads(made.ranked)
        best = next(row for row in rows if row["candidate"] == made.chosen)
        low, mid, high = best["runtime_s"]
        took_s = mid * float(np.exp(random.normal(0.0, 0.12)))
        waited_s = float(random.exponential(mid if made.code == "control" else mid / 2))
        state = "failed" if number % 17 == 5 else "completed"
        outcomes.append(
            PlacedRun(
                "demo", str(4_700 + number), user, state, decision=made.id, workload=name,
                partition="gpu" if best["candidate"] == "v100" else "cpu", elapsed_s=took_s,
                predicted_low_s=low, predicted_s=mid, predicted_high_s=high,
                platform=best["platform"], candidate=best["candidate"],
                submit_s=at_s, end_s=at_s + waited_s + took_s,
            )
        )  # fmt: skip
    store.decisions.add(decisions)
    store.outcomes.put(outcomes)


def _decided(number: int, name: str, user: str, at_s: float) -> DecisionRecord:
    """Most are placed; some programs are not known, some jobs are control jobs."""
    made = replace(decision(number), time_s=at_s, user=user, workload=name, mode="enforce")
    if number % 10 == 7:
        reason = "no workload is known by this name"
        return replace(made, workload=None, action="keep", code="no-workload", reason=reason,
                       chosen=None, ranked="[]", edits="{}")  # fmt: skip
    rows = [
        {"candidate": place, "platform": platform, "runtime_s": [0.8 * mid, mid, 1.3 * mid],
         "host_memory_bytes": [2**30, 2 * 2**30, 3 * 2**30],
         "gpu_memory_bytes": None, "basis": "learned",
         "source": "finished jobs", "excluded": None, "warning": None}
        for place, platform, mid in TIMES_S[name]
    ]  # fmt: skip
    rows.append({"candidate": "genoa", "platform": "epyc-genoa-9654",
                 "runtime_s": [60.0, 500.0, 4_000.0], "host_memory_bytes": None,
                 "gpu_memory_bytes": None, "basis": "prior",
                 "source": None, "excluded": "there is no calibration data for epyc-genoa-9654",
                 "warning": None})  # fmt: skip
    rows.sort(key=lambda row: row["runtime_s"][1] if row["excluded"] is None else 1e9)
    best = rows[0]["candidate"]
    request = json.dumps({**REQUEST, "tasks": 4, "time_limit_s": 4 * HOUR_S})
    reason = f"{best} is predicted fastest."
    if number % 5 == 3:
        made = replace(made, action="keep", code="control")
    return replace(made, chosen=best, ranked=json.dumps(rows), request=request, reason=reason)


def at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm answers with the site's nodes, half of them idle, and with jobs that run and wait."""
    now_s, gib = time.time(), 2**30
    kinds = (
        ("b", 4, "cpu", 36, 128, "broadwell", None), ("r", 2, "cpu", 128, 512, "rome", None),
        ("g", 1, "cpu", 192, 768, "genoa", None), ("v", 2, "gpu", 40, 256, "", "gpu:v100"),
        ("h", 1, "gpu", 64, 1_024, "", "gpu:h100"),
    )  # fmt: skip
    nodes = [
        NodeFacts(
            f"{letter}{n}", (queue,), True, cores, 0 if n % 2 else cores, memory * gib,
            features=(feature,) if feature else (), gpus={gpu: 4} if gpu else {},
            idle_gpus={gpu: 2} if gpu else {},
        )
        for letter, count, queue, cores, memory, feature, gpu in kinds
        for n in range(count)
    ]  # fmt: skip
    queues = {name: QueueFacts(name, True, default_time_s=HOUR_S) for name in ("cpu", "gpu", "mig")}
    facts = ClusterFacts("demo", "25.05.1", now_s, queues, tuple(nodes))
    running = [
        PresentJob(str(800 + n), user=USERS[n % 3], queues=("cpu",), running=True, cores=36,
                   submit_s=now_s - 9_000.0, start_s=now_s - 600.0 * (n + 1),
                   time_limit_s=7_200.0, node_names=(node,))
        for n, node in enumerate(("b0", "b1", "b2", "b3"))
    ]  # fmt: skip
    waiting = [
        PresentJob(str(900 + n), user=USERS[n % 3], queues=("cpu",), running=False,
                   cores=36 * (1 + n % 3), submit_s=now_s - 60.0 * n,
                   time_limit_s=3_600.0 * (1 + n % 2), priority=float(20 - n))
        for n in range(9)
    ]  # fmt: skip
    monkeypatch.setattr(Slurm, "is_here", lambda _self: True)
    monkeypatch.setattr(Slurm, "read", lambda _self, **_how: facts)
    monkeypatch.setattr(Slurm, "present_jobs", lambda _self: (*running, *waiting))
    monkeypatch.setattr(Slurm, "reservations", lambda _self: ())


def replays() -> Report:
    """Two replays of a few jobs."""
    random = np.random.default_rng(3)
    submit = np.sort(random.integers(0, 20_000, 40)).astype(float)
    wait, run = random.exponential(900.0, 40), random.exponential(1_500.0, 40) + 60.0
    user, nodes = np.arange(40) % 3, np.zeros(40, int)
    before, after = (
        ReplayFigures(submit, one, run, user, run, run, 8 * run, nodes, USERS, ("cpu",), jobs=40)
        for one in (wait, wait / 2)
    )
    return Report("Replay of jobs", "", compared_parts(before, after, ("fcfs", "easy")))
