"""Facts and outcomes from recorded replies of Flux's services, and from broken ones."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from fake_flux import recorded_flux, state
from flux_bench import RECORDED, recorded
from flux_daemon import SITE
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import SchedulerError
from berth.plugin.flux.accounting import parse_ended, parse_outcomes
from berth.plugin.flux.cluster import parse_cluster
from berth.plugin.flux.services import stamp_of
from berth.plugin.scheduler import ClusterFacts, state_reader
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import load_site


def read(**changes: Any) -> ClusterFacts:
    return parse_cluster(state(**changes), as_of_s=1.0)


def test_the_recorded_instance() -> None:
    facts = read()
    assert (facts.name, facts.version, facts.owner) == ("node", "flux 0.88.0", "flux")
    cpu, gpu = facts.queues["cpu"], facts.queues["gpu"]
    assert (cpu.up, cpu.is_default, cpu.pending_jobs, cpu.default_time_s) == (True, True, 2, 600.0)
    assert (gpu.up, gpu.is_default, gpu.pending_jobs, gpu.max_time_s) == (True, False, 0, None)
    by_name = {node.name: node for node in facts.nodes}
    assert list(by_name) == ["node0", "node1", "node2", "node3"]
    first, busy, free = by_name["node0"], by_name["node2"], by_name["node3"]
    assert (first.queues, first.cores, first.gpus) == (("cpu",), 4, {})
    assert (busy.queues, busy.features) == (("gpu",), ("gpunode", "h200"))
    assert (busy.cores, busy.idle_cores) == (4, 3)
    assert (busy.gpus, busy.idle_gpus) == ({"gpu": 2}, {"gpu": 1})
    assert (free.idle_cores, free.idle_gpus) == (4, {"gpu": 2})
    assert free.memory_bytes == 2**36


def test_held_jobs_do_not_wait_before_anybody() -> None:
    waiting = [
        {"id": 1, "urgency": 0, "queue": "cpu"}, {"id": 2, "urgency": 16, "queue": "cpu"},
        {"id": 3, "urgency": 0, "queue": "gpu"}, {"id": 4, "urgency": 0},
    ]  # fmt: skip
    facts = read(**{"job-list.list": {"jobs": waiting}})
    assert {name: one.pending_jobs for name, one in facts.queues.items()} == {"cpu": 1, "gpu": 0}
    older = read(**{"job-list.list": {"error": "unknown constraint", "errno": 22}})
    assert older.queues["cpu"].pending_jobs == 2
    with pytest.raises(SchedulerError, match="unreadable"):
        read(**{"job-list.list": {"jobs": 7}})


def test_a_queue_is_up_when_it_is_enabled_and_started() -> None:
    for enable in (True, False):
        for start in (True, False):
            status = {"cpu": {"enable": enable, "start": start}, "gpu": {"error": "no"}}
            facts = read(**{"job-manager.queue-status": status})
            assert facts.queues["cpu"].up is (enable and start)
            assert (facts.queues["cpu"].closed is None) is (enable and start)
            assert not facts.queues["gpu"].up


def test_a_node_that_is_down_or_drained_is_not_usable() -> None:
    resources = recorded("rpc_resource.sched-status")
    resources["down"]["execution"] = {
        "R_lite": [{"rank": "1,3", "children": {"core": "0-3"}}],
        "nodelist": ["node1,node3"],
    }
    facts = read(**{"resource.sched-status": resources})
    assert [node.usable for node in facts.nodes] == [True, False, True, False]


def test_limits_and_durations_of_queues() -> None:
    config = recorded("rpc_config.get")
    config["policy"]["limits"] = {"duration": "1d"}
    config["queues"]["gpu"]["policy"] = {
        "limits": {"duration": "30m"},
        "jobspec": {"defaults": {"system": {"duration": 60}}},
    }
    queues = read(**{"config.get": config}).queues
    assert (queues["cpu"].max_time_s, queues["cpu"].default_time_s) == (86400.0, 600.0)
    assert (queues["gpu"].max_time_s, queues["gpu"].default_time_s) == (1800.0, 60.0)
    assert (queues["gpu"].bounds.max_time_s, queues["gpu"].bounds.default_time_s) == (1800.0, 60.0)


def test_an_instance_without_named_queues_has_one() -> None:
    facts = read(**{"config.get": {}, "job-manager.queue-status": {"": {"enable": 1, "start": 1}}})
    assert list(facts.queues) == ["anonymous"]
    assert all(node.queues == ("anonymous",) for node in facts.nodes)
    status = {"": {"enable": True, "start": True}}
    queue = read(**{"config.get": {}, "job-manager.queue-status": status}).queues["anonymous"]
    assert (queue.up, queue.is_default, queue.pending_jobs) == (True, True, 3)


def test_the_daemon_gets_states_of_a_flux_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flux = recorded_flux(tmp_path / "flux", monkeypatch)
    path = tmp_path / "berth.toml"
    path.write_text(SITE.format(mode="enforce", folder=tmp_path, user=0, daemon="", refresh_s=1))
    site = load_site(path)
    assert site.scheduler == "flux"
    assert site.auto_queue == "auto"
    assert [c.gres for c in site.candidates] == [None, None, "gpu", "gpu"]
    states = state_reader(open_scheduler(site), site.candidates)().states
    assert (states["cpu"].up, states["cpu"].idle_cores) == (True, 8)
    assert (states["gpu"].idle_gpus, states["gpu"].usable_nodes) == (3, 2)
    assert not states["slice"].up
    assert flux.calls == ["flux python " + flux.calls[0].split()[2] + " state banks"]


@given(st.randoms(use_true_random=False))
def test_any_damage_to_the_replies_is_one_sentence(rng: random.Random) -> None:
    answers = copy.deepcopy(state())
    holder: Any = answers
    while True:
        key = rng.choice(list(holder) if isinstance(holder, dict) else list(range(len(holder))))
        if not isinstance(holder[key], (dict, list)) or not holder[key] or rng.random() < 0.2:
            break
        holder = holder[key]
    holder[key] = rng.choice([None, 3, "x", [], {}, "9" * 30, "0-999999999", [None]])
    try:
        assert parse_cluster(answers, as_of_s=1.0).nodes
    except SchedulerError as error:
        assert len(error.message) < 300


# Outcomes


def listed(**changes: Any) -> dict[str, Any]:
    job = {**recorded("rpc_job-list.list-id")["job"], **changes}
    return {"f1": {"job": {k: v for k, v in job.items() if v is not None}}}


@pytest.mark.parametrize(
    ("changes", "state_"),
    [
        ({"state": 2, "t_run": None}, "pending"),
        ({"state": 8, "t_run": None}, "pending"),
        ({"state": 16}, "running"),
        ({"state": 32, "t_cleanup": 1795211659.0}, "running"),
        ({"state": 64, "result": 1}, "completed"),
        ({"state": 64, "result": 2}, "failed"),
        ({"state": 64, "result": 4}, "cancelled"),
        ({"state": 64, "result": 8}, "timeout"),
        ({"state": 64}, "unknown"),
    ],
)
def test_states_of_listed_jobs(changes: dict[str, Any], state_: str) -> None:
    assert parse_outcomes(listed(**changes))["f1"].state == state_


def test_a_listed_job_tells_where_and_how_long() -> None:
    outcome = parse_outcomes(listed(state=64, result=1, t_cleanup=1795211659.9042034))["f1"]
    assert (outcome.partition, outcome.node_list, outcome.elapsed_s) == ("gpu", "node2", 10.0)
    assert parse_outcomes(listed(state=8, t_run=None))["f1"].elapsed_s == 0.0


def logged(*events: tuple[float, str, dict[str, Any]]) -> dict[str, Any]:
    lines = [json.dumps({"timestamp": t, "name": n, "context": c}) for t, n, c in events]
    spec = {"attributes": {"system": {"queue": "gpu"}}}
    return {"f1": {"eventlog": "\n".join(lines) + "\n", "jobspec": json.dumps(spec)}}


def test_the_recorded_eventlog_was_cancelled() -> None:
    text = (RECORDED / "eventlog.jsonl").read_text()
    outcome = parse_outcomes({"f1": {"eventlog": text, "jobspec": "{}"}})["f1"]
    assert outcome.state == "cancelled"
    assert 0.06 < outcome.elapsed_s < 0.07


@pytest.mark.parametrize(
    ("events", "state_", "elapsed_s"),
    [
        ([(1, "submit", {})], "pending", 0),
        ([(1, "submit", {}), (2, "alloc", {}), (9, "finish", {"status": 0})], "completed", 7),
        ([(2, "alloc", {}), (9, "finish", {"status": 256}), (9, "clean", {})], "failed", 7),
        (
            [
                (2, "alloc", {}),
                (5, "exception", {"type": "timeout", "severity": 0}),
                (6, "finish", {"status": 36608}),
            ],
            "timeout",
            4,
        ),
        (
            [
                (2, "alloc", {}),
                (5, "exception", {"type": "note", "severity": 3}),
                (6, "finish", {"status": 0}),
            ],
            "completed",
            4,
        ),
        ([(2, "exception", {"type": "alloc", "severity": 0}), (2, "clean", {})], "failed", 0),
    ],
)
def test_eventlogs_of_forgotten_jobs(events: Any, state_: str, elapsed_s: float) -> None:
    outcome = parse_outcomes(logged(*events))["f1"]
    assert (outcome.state, outcome.elapsed_s, outcome.partition) == (state_, elapsed_s, "gpu")


def test_unknown_jobs_are_absent_and_damage_is_one_sentence() -> None:
    assert parse_outcomes({"f1": {"error": "No such file", "errno": 2}}) == {}
    for broken in ({"job": {}}, {"job": None}, {"eventlog": "x\n"}, {"eventlog": 3}):
        with pytest.raises(SchedulerError, match="f1"):
            parse_outcomes({"f1": broken})


# What ended


def ended(**changes: Any) -> str:
    job = {**recorded("rpc_job-list.list-id")["job"], **OVER}
    answer = {"id": "f1", "job": job, "stamp": "berth/1 id=1m7y4 action=edit", "gpus": 2}
    return json.dumps({**answer, **changes})


OVER = {
    "state": 64,
    "result": 1,
    "waitstatus": 0,
    "t_cleanup": 1795211659.9042034,
    "t_inactive": 1795211660.0,
}


def test_a_job_that_ended_tells_whose_it_was_and_who_placed_it() -> None:
    found = parse_ended([ended()])
    assert found.problem is None
    (outcome,) = found.outcomes
    assert (outcome.job_id, outcome.state, outcome.decision) == ("f1", "completed", "1m7y4")
    assert (outcome.user, outcome.partition, outcome.exit_status) == ("root", "gpu", 0)
    assert (outcome.elapsed_s, outcome.end_s, outcome.gpus) == (10.0, OVER["t_cleanup"], 2)
    assert (outcome.nodes, outcome.submit_s) == (1, recorded_job()["t_submit"])


def recorded_job() -> dict[str, Any]:
    job: dict[str, Any] = recorded("rpc_job-list.list-id")["job"]
    return job


def test_a_user_without_a_name_is_called_as_in_the_decision() -> None:
    (outcome,) = parse_ended([ended(job={**recorded_job(), **OVER, "userid": 54321})]).outcomes
    assert outcome.user == "uid:54321"


@pytest.mark.parametrize("stamp", [None, 7, "somebody's own", {}])
def test_other_jobs_carry_no_decision(stamp: object) -> None:
    assert parse_ended([ended(stamp=stamp, gpus=None)]).outcomes[0].decision is None


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (256, 1), (15, 143), (139, 139), (None, None)]
)
def test_exit_statuses_are_as_a_shell_says_them(status: int | None, expected: int | None) -> None:
    line = ended(job={**recorded_job(), **OVER, "waitstatus": status})
    assert parse_ended([line]).outcomes[0].exit_status == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("garbage", "cannot be read"),
        ("{}", "cannot be read"),
        ("7", "cannot be read"),
        ('["error"]', "cannot be read"),
        ("[" * 9999, "cannot be read"),
        (ended(id="f2").replace('"nnodes": 1', '"nnodes": 1e999'), "cannot be read"),
        ('{"id": "f2", "job": {"state": "x"}}', "cannot be read"),
        ('{"id": "f2", "error": "No such file", "errno": 2}', "job f2: No such file"),
        ('{"id": "f2", "error": "Operation not permitted", "errno": 1}', "only the owner"),
    ],
    ids=lambda text: text[:20],
)
def test_a_record_that_cannot_be_read_hides_no_other(line: str, problem: str) -> None:
    found = parse_ended([line, ended(), line])
    assert [o.job_id for o in found.outcomes] == ["f1"]
    assert found.problem is not None
    assert problem in found.problem


@given(st.text())
def test_any_line_is_a_job_or_a_sentence(text: str) -> None:
    found = parse_ended(text.splitlines())
    assert found.problem is not None or not text.splitlines() or found.outcomes == ()


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{"type": "slot", "count": 2, "with": [{"type": "core", "count": 4}]}], 0),
        (
            [
                {
                    "type": "node",
                    "count": 2,
                    "with": [
                        {
                            "type": "slot",
                            "count": 3,
                            "with": [{"type": "core", "count": 1}, {"type": "gpu", "count": 2}],
                        }
                    ],
                }
            ],
            12,
        ),
    ],
)
def test_gpus_are_counted_over_slots_and_nodes(resources: Any, expected: int) -> None:
    spec = {"attributes": {"system": {}}, "resources": resources}
    assert stamp_of({"jobspec": json.dumps(spec)}) == {"stamp": None, "gpus": expected}


@pytest.mark.parametrize("text", ["", "no", "[]", "{}", '{"attributes": [], "resources": 7}'])
def test_a_jobspec_of_another_form_has_no_stamp(text: str) -> None:
    assert stamp_of({"jobspec": text}) == {"stamp": None, "gpus": None}
