"""A store of an earlier version keeps its runs: each job is one row of the table ``runs``."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String, Table, text

from berth.pilot.run import Run
from berth.plugin.store import PlacedRun, Store
from berth.plugin.store.tables import REVISIONS, runs
from berth.plugin.store.upgrade import schema_version

SHARED = (
    "cluster job_id user state queue submit_s start_s end_s elapsed_s nodes cores gpus "
    "time_limit_s gpu_peak_bytes energy_j node_list gpu_type cpu_time_s disk_read_bytes "
    "disk_written_bytes gpu_utilisation gpu_utilisation_peak "
)
COLUMNS = {
    "outcomes": SHARED + "decision exit_status max_rss_bytes workload bundle candidate platform "
    "predicted_low_s predicted_s predicted_high_s seen_end_s seen_state",
    "past_jobs": SHARED + "account name program script arguments similar request_bytes peak_bytes "
    "peak_source gpu_memory_utilisation raw_id",
    "evidence": "cluster job_id ended_s state use user workload digest platform cores gpus size "
    "runtime_s memory_bytes score nodes",
}
"""Version v0001: the columns of its tables."""
COLUMNS["runs"] = " ".join(
    dict.fromkeys(
        f"{COLUMNS['outcomes']} {COLUMNS['past_jobs']} partition followed accounted".replace(
            "queue ", ""
        )
        .replace("max_rss_bytes ", "")
        .split()
    )
)
"""Version v0002: one table in the place of two of them."""
LOOKED_AT = {"cluster": "lab", "ended_s": 90.0, "state": "completed", "use": "used",
             "user": "bob", "workload": "app", "digest": "d", "cores": 8}  # fmt: skip
ENDED = {"cluster": "lab", "state": "completed", "start_s": 30.0, "end_s": 90.0, "elapsed_s": 60.0}
TEXTS = dict.fromkeys(("node_list", "gpu_type"), "")
NO_NAMES = dict.fromkeys(
    ("account", "name", "program", "script", "arguments", "similar", "peak_source", "raw_id"), ""
)


def old_table(name: str) -> Table:
    """A table of the earlier version, with the types of the columns of that name."""
    columns = []
    for column in COLUMNS[name].split():
        kind: type = String
        if column.endswith("_bytes"):
            kind = BigInteger
        elif column.endswith(("_s", "_j", "utilisation", "utilisation_peak", "size", "score")):
            kind = Double
        elif column in {"nodes", "cores", "gpus", "exit_status", "followed", "accounted"}:
            kind = Integer
        columns.append(Column(column, kind, primary_key=column in {"cluster", "job_id"}))
    return Table(name, MetaData(), *columns)


def make_old(
    store: Store, rows: Mapping[str, list[dict[str, object]]], version: str = "v0001"
) -> None:
    """Give a store the tables of an earlier version in the place of ``runs``."""
    with store.database.write() as connection:
        runs.drop(connection)
        for name, records in rows.items():
            table = old_table(name)
            table.create(connection)
            for record in records:
                connection.execute(table.insert().values(**record))
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})


def test_runs_of_the_two_former_tables_become_one(store: Store) -> None:
    accounted = ENDED | TEXTS | NO_NAMES | {"submit_s": 10.0, "cores": 8, "nodes": 1}
    make_old(store, {
        "past_jobs": [
            accounted | {"job_id": "7_1", "user": "alice", "queue": "cpu", "name": "solve.sh",
                         "raw_id": "9", "peak_bytes": 2**40, "peak_source": "cgroup"},
            accounted | {"job_id": "8", "user": "bob", "queue": "gpu", "gpus": 1},
        ],
        "outcomes": [
            ENDED | TEXTS | {"job_id": "8", "user": "bob", "queue": "gpu", "decision": "d8",
                             "exit_status": 0, "workload": "app", "predicted_s": 50.0,
                             "seen_end_s": 90.0, "seen_state": "completed"},
            ENDED | TEXTS | {"job_id": "12", "user": "eve", "decision": "d12", "workload": "app",
                             "max_rss_bytes": 2**30},
            TEXTS | {"cluster": "lab", "job_id": "13", "user": "eve", "state": "cancelled",
                     "end_s": 95.0},
        ],
        "evidence": [LOOKED_AT | {"job_id": "8"}, LOOKED_AT | {"job_id": "gone"}],
    })  # fmt: skip
    upgraded = Store.open(store.database.url.render_as_string(hide_password=False))
    assert schema_version(upgraded.database) == REVISIONS[-1]
    times = {"submit_s": 10.0, "start_s": 30.0, "end_s": 90.0, "elapsed_s": 60.0}
    array = Run(
        "lab", "7_1", "alice", "completed", **times, cores=8, nodes=1, partition="cpu",
        name="solve.sh", raw_id="9", peak_bytes=2**40, peak_source="cgroup",
    )  # fmt: skip
    assert upgraded.past_jobs.of_job("7_1") == array
    assert upgraded.outcomes.of_job("7_1") is None
    both = upgraded.outcomes.of_job("8")
    assert both == PlacedRun(
        "lab", "8", "bob", "completed", **times, cores=8, nodes=1, gpus=1, partition="gpu",
        decision="d8", exit_status=0, workload="app", predicted_s=50.0,
        use="used", seen_end_s=90.0, seen_state="completed", workload_digest="d", ranked_cores=8,
    )  # fmt: skip
    assert upgraded.past_jobs.count() == 2
    assert [job.job_id for job in upgraded.outcomes.between(0.0, 99.0)] == ["12", "8", "13"]
    (pending,) = upgraded.learning.pending(0.0, 9)
    assert (pending.job_id, pending.peak_bytes, pending.peak_source) == ("12", 2**30, "polled")
    upgraded.close()


def test_evidence_goes_to_its_run_and_both_rows_of_a_task_become_one(store: Store) -> None:
    ran = ENDED | TEXTS | NO_NAMES | {"user": "bob", "partition": "cpu", "submit_s": 10.0}
    make_old(store, {
        "runs": [
            ran | {"job_id": "9", "decision": "d9", "workload": "app", "followed": 1,
                   "seen_end_s": 90.0, "seen_state": "completed", "node_list": "n1"},
            ran | {"job_id": "7_2", "raw_id": "9", "name": "a.sh", "accounted": 1},
            ran | {"job_id": "10", "workload": "app", "followed": 1},
        ],
        "evidence": [LOOKED_AT | {"job_id": "9", "score": 0.5, "size": 3.0, "gpus": 1}],
    }, "v0002")  # fmt: skip
    upgraded = Store.open(store.database.url.render_as_string(hide_password=False))
    assert schema_version(upgraded.database) == REVISIONS[-1]
    times = {"submit_s": 10.0, "start_s": 30.0, "end_s": 90.0, "elapsed_s": 60.0}
    task = PlacedRun(
        "lab", "7_2", "bob", "completed", **times, partition="cpu", node_list="n1", name="a.sh",
        raw_id="9", decision="d9", workload="app", use="used", seen_end_s=90.0,
        seen_state="completed", workload_digest="d", ranked_cores=8, ranked_gpus=1, size=3.0,
        score=0.5,
    )  # fmt: skip
    assert upgraded.learning.of_all(9) == upgraded.learning.of_user("bob", 9) == [task]
    assert [run.job_id for run in upgraded.learning.pending(0.0, 9)] == ["10"]
    assert [run.job_id for run in upgraded.past_jobs.of_users()] == ["7_2"]
    upgraded.close()


def test_a_run_without_an_elapsed_time_keeps_that_between_its_start_and_end(store: Store) -> None:
    failed = ENDED | TEXTS | {"job_id": "14", "user": "eve", "state": "failed", "elapsed_s": None}
    make_old(store, {"past_jobs": [], "outcomes": [failed], "evidence": []})
    upgraded = Store.open(store.database.url.render_as_string(hide_password=False))
    (run,) = upgraded.outcomes.between(0.0, 99.0)
    assert run.elapsed_s == 60.0, "it did not fail at once"
    upgraded.close()


def test_a_job_that_both_the_daemon_and_accounting_tell_of_is_one_run(store: Store) -> None:
    placed = PlacedRun(
        "lab", "8", "bob", "completed", 10.0, 30.0, 90.0, 60.0, 8, decision="d8", workload="app"
    )
    accounted = Run("lab", "8", "bob", "completed", 10.0, 30.0, 90.0, 60.0, 8, name="solve.sh")
    for puts in ((0, 1), (1, 0)):
        for put in puts:
            if put:
                store.past_jobs.put([accounted])
            else:
                store.outcomes.put([placed])
        stored = store.outcomes.of_job("8")
        assert stored is not None
        assert (stored.decision, stored.workload, stored.name) == ("d8", "app", "solve.sh")
    (known,) = store.past_jobs.of_users("bob")
    assert known.decision == "d8"
    store.outcomes.put([PlacedRun("lab", "9", "bob", "failed", elapsed_s=0.0)])  # never started
    assert len(list(store.past_jobs.of_users("bob", followed=True))) == 1
