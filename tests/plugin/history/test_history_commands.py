"""From last month's accounting to the placing of a job that nobody piloted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import Harbour, forecast, wait_until
from click.testing import CliRunner
from made_forecasts import put

from berth.pilot.run import Run
from berth.plugin.cli.command_line import berth
from berth.plugin.history.advice import advise
from berth.plugin.history.matching import JobDescription, Match, match_keys, plain_name
from berth.plugin.store import PlacedRun, Store
from berth.policies.codes import Code

HEADER = "JobID|User|Partition|State|Start|End|TimelimitRaw|AllocCPUS|NNodes|ReqMem|MaxRSS|JobName"


def accounting(user: str = "alice", *, seconds: int = 600, first: int = 1) -> str:
    lines = [HEADER]
    for number in range(first, first + 6):
        start = 1_793_527_200 + 5000 * number
        took = seconds + 10 * (number % 3)
        lines.append(
            f"{number}|{user}|cpu|COMPLETED|{start}|{start + took}|60|16|1|64G||align_{number}.sh"
        )
        lines.append(f"{number}.batch||||{start}|{start + took}||16|1||3G|batch")
    return "\n".join(lines) + "\n"


def run(*words: str) -> str:
    done = CliRunner().invoke(berth, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_a_job_without_a_pilot_is_judged_by_its_past(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_SITE", str(site.site_file))
    file = site.folder / "jobs.txt"
    file.write_text(accounting())
    said = run("jobs", "history", "import", str(file))
    assert "6 jobs that ran, 6 of them new" in said
    assert "workloads from" in said
    again = json.loads(run("jobs", "history", "import", str(file), "--json"))
    assert (again["jobs"], again["new"], again["broken"]) == (6, 0, 0)
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    asked = {"queue": "auto", "user": "alice", "tasks": 16, "time_limit_min": 60}
    reply = daemon.decide(name="align_99.sh", **asked)
    assert reply["code"] == Code.STAYS, reply
    assert "edits" not in reply  # it ran on the nodes of auto
    assert "workload=alice/history-align" in reply["stamp"]
    # Another time limit is a weaker match; another user's jobs never are one.
    assert daemon.decide(name="align_99.sh", **asked | {"time_limit_min": 90})["code"] == Code.STAYS
    assert daemon.decide(name="align_99.sh", **asked | {"user": "bob"})["code"] != Code.STAYS
    assert daemon.decide(name="other.sh", **asked)["code"] != Code.STAYS


UUIDS = [f"3f2504e0-4f89-11d3-9a0c-0305e82c330{number}" for number in range(7)]


def test_the_rules_of_a_workflow_are_programs_in_history_and_when_placed(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job of snakemake has a UUID for its name; its comment names the rule."""
    monkeypatch.setenv("BERTH_SITE", str(site.site_file))
    lines = [HEADER.replace("JobName", "Comment|JobName")]
    for number, uuid in enumerate(UUIDS[:6]):
        start = 1_793_527_200 + 5000 * number
        lines.append(
            f"{number}|alice|cpu|COMPLETED|{start}|{start + 600}|60|16|1|64G||"
            f"rule_align_wildcards_S{number}|{uuid}\n"
            f"{number}.batch||||{start}|{start + 600}||16|1||3G||batch"
        )
    file = site.folder / "jobs.txt"
    file.write_text("\n".join(lines) + "\n")
    run("jobs", "history", "import", str(file))
    assert "alice/history-align-" in run("workload", "list")
    assert run("jobs", "advise", "align").startswith("alice align: asks 64.0 GiB")
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    asked = {"queue": "auto", "user": "alice", "tasks": 16, "time_limit_min": 60, "name": UUIDS[6]}
    reply = daemon.decide(**asked, comment="rule_align_wildcards_S99")
    assert reply["code"] == Code.STAYS, reply
    assert "workload=alice/history-align" in reply["stamp"]
    assert daemon.decide(**asked, comment="rule_sort_wildcards_S99")["code"] != Code.STAYS
    store = Store.reading(f"sqlite:///{site.folder}/store.db")
    wait_until(lambda: len(store.decisions.last(9)) == 2)
    jobs = [json.loads(record.request)["job"] for record in store.decisions.last(9)]
    assert {job["program"] for job in jobs} == {"align", "sort"}


@pytest.mark.parametrize(("owner", "user"), [("alice/", "alice"), ("", "bob"), ("carol/", "")])
def test_a_workload_of_the_programs_name_is_the_jobs(site: Harbour, owner: str, user: str) -> None:
    """The user's own, or a shared one; never another user's."""
    store = site.store()
    put(store, forecast(f"{owner}align"))
    store.close()
    daemon = site.start()
    wait_until(lambda: daemon.stats()["forecasts"] >= 1)
    reply = daemon.decide(
        queue="auto", user=user or "bob", tasks=16, name=UUIDS[0], comment="rule_align"
    )
    assert (f"workload={owner}align" in reply["stamp"]) == bool(user), reply


SCONTROL = """#!/bin/sh
case "$*" in
  *"show partition"*) echo PartitionName=cpu; echo PartitionName=gpu; echo PartitionName=auto;;
  *"show node"*)
    echo NodeName=c1 CPUTot=64 State=IDLE Partitions=cpu,auto
    echo NodeName=g1 CPUTot=64 Gres=gpu:a100:4 State=IDLE Partitions=gpu,auto;;
esac
"""


def test_jobs_in_auto_count_for_the_kind_of_their_nodes(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = site.folder / "tools"
    tools.mkdir()
    for name in ("scontrol", "squeue", "sinfo", "sacctmgr"):
        (tools / name).write_text(SCONTROL)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    header, *lines = accounting().splitlines()
    nodes = {1: "c1", 2: "c1", 3: "c1", 4: "c[1-2]", 5: "c1,g1", 6: "None assigned"}
    told = [header.replace("JobName", "NodeList|JobName")]
    for line in lines:
        fields = line.replace("|cpu|", "|auto|").split("|")
        at = nodes[int(fields[0].partition(".")[0])]
        told.append("|".join((*fields[:-1], at, fields[-1])))
    file = site.folder / "jobs.txt"
    file.write_text("\n".join(told))
    words = ("jobs", "history", "import", str(file), "--site", str(site.site_file))
    answer = json.loads(run(*words, "--json"))
    assert answer["unplaced"] == {"two-kinds": 0, "unknown-nodes": 2, "no-nodes": 1}
    for record in site.store().workloads():
        runs = json.loads(record.document)["runs"]
        assert [(run["job_id"], run["platform"]) for run in runs] == [
            (str(number), "rome-7742") for number in (1, 2, 3)
        ]
    # What was seen of the nodes stays known where the scheduler does not answer.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = run("jobs", "history", "refresh", "--site", str(site.site_file))
    assert "2 jobs ran on nodes that no candidate" in said
    assert "1 jobs ran in queues" in said


def test_jobs_that_berth_decided_upon_are_learnt_from_too(site: Harbour) -> None:
    outcomes = [
        PlacedRun(
            "tests", str(n), "carol", "completed", partition="cpu", start_s=1e6 + n,
            end_s=1e6 + n + 60, cores=8, elapsed_s=60.0, time_limit_s=600.0, peak_bytes=10**9,
        )
        for n in range(4)
    ]  # fmt: skip
    store = site.store()
    store.outcomes.put([*outcomes, replace(outcomes[0], job_id="x", start_s=None)])
    said = run("jobs", "history", "refresh", "--site", str(site.site_file))
    assert said.startswith("1 workloads from 4 runs")
    (record,) = store.workloads()
    assert record.name.startswith("carol/history-8-cores-")
    assert record.owner == "carol"


def test_import_without_a_site_stores_and_advises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"{tmp_path}/store.db"
    file = tmp_path / "jobs.txt"
    file.write_bytes(accounting().encode() + b"rubbish \xff\n")
    said = run("jobs", "history", "import", str(file), "--store", store)
    assert "1 lines could not be read" in said
    assert "no site file" in said
    sentence = run("jobs", "advise", "align_1.sh", "--store", store)
    assert "alice align_#.sh: asks 64.0 GiB a node, needed at most 3.0 GiB in 6 runs" in sentence
    assert "polled" in sentence
    assert "there are: align_#.sh" in run("jobs", "advise", "align.sh", "--store", store)
    assert json.loads(run("jobs", "advise", "--user", "bob", "--store", store, "--json")) == []
    monkeypatch.setattr("time.time", lambda: 2e9)
    pruned = run("site", "store", "prune", "--older-than-days", "1", "--outcomes", "--store", store)
    assert "6 outcomes deleted" in pruned


def test_past_jobs_are_stored_once_and_pruned(store: Store) -> None:
    jobs = [
        Run("lab", str(n), "alice", "completed", n, n + 1.0, n + 2.0, 1.0, 4) for n in range(2_500)
    ]
    store.past_jobs.put(jobs)
    store.past_jobs.put(jobs[:10])
    assert store.past_jobs.count() == 2_500
    assert [job.job_id for job in store.past_jobs.of_users("alice")] == [j.job_id for j in jobs]
    assert list(store.past_jobs.of_users("bob")) == []
    assert store.past_jobs.newest_end_s("lab") == 2_501.0
    assert store.outcomes.prune(1_000.0) == 998
    assert store.past_jobs.newest_end_s("elsewhere") is None


def test_keys_are_of_one_user_and_forget_numbers() -> None:
    def found(user: str, name: str, cores: int, limit_s: float | None) -> dict[Match, str]:
        return dict(match_keys(user, cores, limit_s, JobDescription(name)))

    assert plain_name("Run_007.sh") == plain_name("run_12.sh") == "run_#.sh"
    assert found("alice", "run_1", 4, 60.0) == found("alice", "run_2", 8, 60.0)
    hour, longer = found("alice", "run_1", 4, 60.0), found("alice", "run_1", 4, 120.0)
    assert list(hour) == [Match.LIMIT, Match.NAME]
    assert hour[Match.LIMIT] != longer[Match.LIMIT]
    assert hour[Match.NAME] == longer[Match.NAME]
    others = found("bob", "run", 4, 60.0)
    assert not set(found("alice", "run", 4, 60.0).values()) & set(others.values())
    assert found("alice", "sbatch", 4, None) != found("alice", "sbatch", 8, None)
    assert found("", "run", 4, None) == {}


def job(number: int, **changes: object) -> Run:
    known: dict[str, object] = {
        "cluster": "lab", "job_id": str(number), "user": "alice", "state": "completed",
        "submit_s": 0.0, "start_s": 1.0, "end_s": 100.0 + number, "elapsed_s": 99.0, "cores": 4,
        "name": "align", "request_bytes": 64 * 2**30, "peak_bytes": 3 * 2**30,
        "peak_source": "cgroup", "time_limit_s": 3600.0,
    }  # fmt: skip
    return Run(**known | changes)  # type: ignore[arg-type]


def test_memory_is_advised_above_the_largest_peak_and_never_after_a_kill() -> None:
    (found,) = advise([job(n) for n in range(5)])
    assert found.advised_bytes is not None
    assert found.advised_bytes > 3 * 2**30
    assert not found.polled
    (larger,) = advise([*(job(n) for n in range(5)), job(6, peak_bytes=40 * 2**30)])
    assert larger.advised_bytes is None
    (killed,) = advise([*(job(n) for n in range(5)), job(6, state="out-of-memory")])
    assert killed.advised_bytes is None
    assert "1 run ended out of memory" in killed.sentence()
    (unknown,) = advise([job(n, peak_bytes=None, request_bytes=None) for n in range(3)])
    assert "needed" not in unknown.sentence()
    assert advise([job(1), job(2)]) == []
    edited = [job(n, script=f"sha256:{n}") for n in range(4)]
    assert [one.runs for one in advise(edited)] == [4], "a script that is edited is one program"
    assert [one.runs for one in advise([job(n, name="wrap", script="a") for n in range(3)])] == [3]
