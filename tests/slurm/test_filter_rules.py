"""The filter's own rules, under a plain Lua: what it asks, what it accepts, what it refuses."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from filter_bench import FilterBench, partition, partitions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import examples

AUTO = {"partition": "auto"}


def answered(bench: FilterBench, reply: Reply | bytes, job: dict[str, Any], **rest: Any) -> Any:
    with FakeDaemon(bench.socket, lambda _: reply):
        return bench.submit(job, **rest)


def test_the_request_holds_the_jobs_fields_and_omits_what_was_not_given(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit({"partition": "auto", "comment": "berth:stream"})
        bench.submit(
            {
                "partition": "auto",
                "account": "physics",
                "min_nodes": 2,
                "num_tasks": 8,
                "cpus_per_task": 4,
                "ntasks_per_node": 4,
                "min_mem_per_node": 2048,
                "gres": "gres:gpu:1",
                "features": "avx512",
                "time_limit": 30,
                "array_inx": "0-9%2",
                "het_job_offset": 0,
                "req_nodes": "cpu1",
                "qos": "high",
            },
            environment={"BERTH_WORKLOAD": "stream@4096", "BERTH_MODE": "advise", "HOME": "/"},
        )
    first, second = daemon.requests
    began_s = [request["job"].pop("scheduler_since_s") for request in (first, second)]
    assert all(abs(at_s - time.time()) < 60 for at_s in began_s)
    assert first == {
        "v": 1,
        "op": "decide",
        "scheduler": "slurm",
        "job": {
            "uid": 5,
            "user": "games",
            "name": "job",
            "queue": "auto",
            "queues": ["cpu", "gpu", "mig"],
            "comment": "berth:stream",
            "script": "#!/bin/sh\ntrue\n",
            "kind": "batch",
        },
    }
    job = second["job"]
    assert sorted(job.pop("pinned")) == ["nodelist", "qos"]
    assert job == {
        "uid": 5,
        "user": "games",
        "account": "physics",
        "qos": "high",
        "name": "job",
        "queue": "auto",
        "queues": ["cpu", "gpu", "mig"],
        "workload": "stream@4096",
        "mode": "advise",
        "script": "#!/bin/sh\ntrue\n",
        "kind": "batch",
        "nodes": 2,
        "tasks": 8,
        "cpus_per_task": 4,
        "tasks_per_node": 4,
        "memory_mib_per_node": 2048,
        "gres": "gres:gpu:1",
        "features": "avx512",
        "time_limit_min": 30,
        "array": "0-9%2",
        "het": 0,
    }


def test_the_scripts_path_and_the_loaded_modules_are_sent(bench: FilterBench) -> None:
    """They may tell the program; what is too long, or of an unknown encoding, is left out."""
    loaded = {"LOADEDMODULES": "gcc/12:vasp/6.4"}
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit(AUTO, argv=["/home/ada/relax.sh", "-k"], environment=loaded)
        bench.submit(AUTO, argv=["relax.sh"])
        bench.submit(AUTO, argv=["p" * 2_000], environment={"LOADEDMODULES": "m" * 5_000})
    jobs = [request["job"] for request in daemon.requests]
    sent = [(job.get("script_path"), job.get("modules"), job.get("arguments")) for job in jobs]
    assert sent == [
        ("/home/ada/relax.sh", "gcc/12:vasp/6.4", ["-k"]),
        ("relax.sh", None, None),
        (None, None, None),
    ]
    assert all("script_unread" not in job for job in jobs)


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({"gres": "gpu:2", "min_nodes": 2}, None),  # of a node
        ({"tres_per_job": "gres/gpu:4", "min_nodes": 2}, 4),
        ({"tres_per_job": "gres/gpu:h200:4"}, 4),
        ({"tres_per_job": "gres:gpu:1g.5gb"}, 1),
        ({"tres_per_job": "gres/shard:2"}, None),
        ({"tres_per_task": "cpu=4,gres/gpu:1", "num_tasks": 8}, 8),
        ({"tres_per_task": "gres:gpu:2", "min_nodes": 2, "ntasks_per_node": 2}, 8),
    ],
)
def test_gpus_are_counted_as_the_user_counted_them(
    bench: FilterBench, asked: dict[str, Any], gpus: int | None
) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit({**AUTO, **asked})
    assert daemon.requests[0]["job"].get("gpus") == gpus


def test_nodes_that_are_excluded_are_a_choice(bench: FilterBench) -> None:
    """They might be the only ones with such a slice, and Slurm would refuse the job."""
    typed = {"v": 1, "action": "edit", "edits": {"gres": "gpu:1g.5gb:1"}}
    job = {"partition": "mig", "gres": "gpu:1", "exc_nodes": "mig1"}
    with FakeDaemon(bench.socket, lambda _: typed) as daemon:
        own = bench.submit(job)
    assert daemon.requests[0]["job"]["pinned"] == ["nodelist"]
    assert own.job["gres"] == "gpu:1"


@pytest.mark.parametrize(
    "field", ["pn_min_tmp_disk", "sockets_per_node", "cores_per_socket", "threads_per_core"]
)
def test_what_a_node_must_have_is_a_choice_of_nodes(bench: FilterBench, field: str) -> None:
    """Other nodes may lack it, and Slurm would refuse the job there."""
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        asked = bench.submit({**AUTO, field: 2})
        unset = 4294967294 if field == "pn_min_tmp_disk" else 65534
        bench.submit({**AUTO, field: unset})
    assert daemon.requests[0]["job"]["pinned"] == ["nodelist"]
    assert asked.job["partition"] == AUTO["partition"]
    assert "pinned" not in daemon.requests[1]["job"]


def test_an_interactive_job_sends_no_script_and_its_environment_is_not_read(
    bench: FilterBench,
) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        outcome = bench.submit(AUTO, batch=False)
    assert daemon.requests[0]["job"]["kind"] == "interactive"
    assert outcome.complaints == []


def test_a_later_component_of_a_het_job_counts_as_batch(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit({"het_job_offset": 1}, batch=False)
    assert daemon.requests[0]["job"]["kind"] == "batch"


def test_a_script_over_64_kib_is_not_sent(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.submit({"script": "#!/bin/sh\n" + "#" * 65536})
        bench.submit({"script": "#!/bin/sh\n" + "#" * 65000})
    assert ["script" in request["job"] for request in daemon.requests] == [False, True]


def test_of_a_comment_that_cannot_be_sent_the_words_for_berth_are_sent_whole(
    bench: FilterBench,
) -> None:
    words = ["berth:alice/lu@100:250:90", "berth:lu@1e2+10i", "berth-deadline:1-00:00:00"]
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        for word in words:
            bench.submit({**AUTO, "comment": f"{'x' * 2000} {word}; my job"})
    assert [request["job"].get("comment") for request in daemon.requests] == words


def test_a_script_goes_with_its_arguments_or_not_at_all(bench: FilterBench) -> None:
    """The daemon knows programs by script and arguments together."""
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        for words in (["job.sh"], ["job.sh", "4096", "fast"], ["job.sh", "x" * 5000]):
            bench.submit(argv=words)
    found = [(r["job"].get("arguments"), "script" in r["job"]) for r in daemon.requests]
    assert found == [(None, True), (["4096", "fast"], True), (None, False)]


def test_bytes_that_are_not_utf8_are_left_out(bench: FilterBench) -> None:
    """Else one user's Latin-1 script would look like a broken daemon and open the breaker."""
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        for text in (
            "é€😀 ~".encode(),
            "é".encode("latin-1"),
            b"\xed\xa0\x80",
            b"\xc0\xaf",
            b"\xff",
        ):
            bench.submit(script_bytes=list(text))
    scripts = [request["job"].get("script") for request in daemon.requests]
    assert scripts == ["é€😀 ~", None, None, None, None]


@pytest.mark.parametrize(("reply", "most"), [(KEEP, 40), (move_to("gpu", nodes=1, tasks=1), 64)])
def test_most_fields_are_read_only_for_jobs_that_are_moved(
    bench: FilterBench, reply: Reply, most: int
) -> None:
    job = {**AUTO, "num_tasks": 4, "min_cpus": 4, "comment": "berth:stream"}
    outcome = answered(bench, reply, job, environment={"SLURM_NTASKS": "4"})
    print(f"{outcome.reads} fields read")
    assert outcome.reads <= most


@pytest.mark.parametrize(
    ("job", "edits", "moved"),
    [
        ({"time_min": 61}, {}, False),
        ({"time_min": 60}, {}, True),
        ({"time_min": 61, "time_limit": 90}, {}, True),
        ({"time_min": 61}, {"time_limit_min": 90}, True),
        ({"time_min": 61}, {"time_limit_min": 60}, False),
        ({"time_min": 61}, {"queue": "cpu,gpu"}, False),
    ],
)
def test_a_least_time_over_the_default_of_the_place_keeps_the_job(
    bench: FilterBench, job: dict[str, Any], edits: dict[str, Any], moved: bool
) -> None:
    outcome = answered(bench, move_to(**{"queue": "gpu", **edits}), {**AUTO, **job})
    assert (outcome.job["partition"] != "auto") is moved
    assert outcome.codes == [0]


@pytest.mark.parametrize(
    ("job", "gres", "moved"),
    [
        ({"ntasks_per_core": 2, "segment_size": 0}, "gpu:h200:1", False),
        ({"ntasks_per_core": 1, "segment_size": 0}, "gpu:h200:1", False),  # counts cores
        ({"ntasks_per_core": 2, "segment_size": 0}, None, True),
    ],
)
def test_tasks_that_share_a_core_get_no_gpus_of_slurm_26(
    bench: FilterBench, job: dict[str, Any], gres: str | None, moved: bool
) -> None:
    edits = {} if gres is None else {"gres": gres}
    outcome = answered(bench, move_to("gpu", **edits), {**AUTO, **job})
    assert (outcome.job["partition"] == "gpu") is moved


WHOLE = partition(max_share=0)


@pytest.mark.parametrize(
    ("job", "gpu", "listed", "kept"),
    [
        ({}, WHOLE, "cpu,gpu", "cpu,gpu"),
        ({"min_mem_per_cpu": 2000}, WHOLE, "cpu,gpu", "cpu"),
        ({"min_mem_per_cpu": 2000}, WHOLE, "gpu,cpu,mig", "cpu,mig"),
        ({"min_mem_per_cpu": 2000}, WHOLE, "gpu", None),
        ({"pn_min_cpus": 8}, WHOLE, "cpu,gpu", "cpu"),
        ({"min_nodes": 2, "max_nodes": 3}, WHOLE, "gpu,cpu", "cpu"),
        ({"time_min": 61}, partition(default_time=90), "cpu,gpu", "gpu"),
        ({"time_min": 61}, partition(), "cpu,gpu", None),
        ({"burst_buffer": "x"}, partition(), "cpu,gpu", None),  # an option that no place takes
    ],
)
def test_partitions_to_which_an_option_cannot_be_carried_leave_the_list(
    bench: FilterBench, job: dict[str, Any], gpu: dict[str, Any], listed: str, kept: str | None
) -> None:
    reply = {**move_to(listed), "stamp": "berth/1 id=x action=edit code=placed"}
    outcome = answered(bench, reply, {**AUTO, **job}, parts=partitions(gpu=gpu))
    assert outcome.job["partition"] == (kept or "auto")
    assert ("action=keep code=untranslated" in outcome.job["admin_comment"]) is (kept is None)
    assert any("(not in " in line for line in outcome.user) is (kept not in (None, listed))


UNTRANSLATED = {
    "batch_features": "fast", "burst_buffer": "x", "clusters": "other", "network": "ib",
    "power_flags": 1, "reboot": 1, "req_context": "u:r", "selinux_context": "u:r",
    "ntasks_per_board": 2, "core_spec": 1, "thread_spec": 1, "bitflags": 0x100,
    "min_mem_per_cpu": 0, "contiguous": 1, "req_switch": 1, "segment_size": 2,
    "threads_per_core": 1, "ntasks_per_core": 1, "shared": 2,
}  # fmt: skip
ON_SEVERAL_NODES = ("contiguous", "req_switch", "segment_size")


@pytest.mark.parametrize("field", UNTRANSLATED)
def test_each_option_that_cannot_be_carried_keeps_the_job(bench: FilterBench, field: str) -> None:
    job = {**AUTO, "num_tasks": 4, field: UNTRANSLATED[field]}
    reply = {**move_to("gpu"), "stamp": "berth/1 id=x action=edit code=placed"}
    kept = answered(bench, reply, {**job, "min_nodes": 2})
    assert kept.job["partition"] == "auto"
    assert "action=keep code=untranslated" in kept.job["admin_comment"]
    on_one = answered(bench, reply, job).job["partition"]
    assert on_one == ("gpu" if field in ON_SEVERAL_NODES else "auto")


def test_gpus_bound_to_sockets_keep_a_job_that_would_get_some(bench: FilterBench) -> None:
    job = {**AUTO, "bitflags": 0x10}
    assert answered(bench, move_to("gpu"), job).job["partition"] == "gpu"
    with_gpus = answered(bench, move_to("gpu", gres="gpu:h200:1"), job)
    assert with_gpus.job["partition"] == "auto"


def test_the_users_name_is_looked_up_once_a_minute(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        once = bench.submit(AUTO)
        thrice = bench.submit(AUTO, submissions=3)
    assert [request["job"]["user"] for request in daemon.requests] == ["games"] * 4
    assert thrice.reads == 3 * once.reads - 2


def test_an_edit_is_carried_out_and_stamped_and_told(bench: FilterBench) -> None:
    outcome = answered(bench, move_to("gpu", gres="gpu:h200:1", time_limit_min=60), AUTO)
    assert outcome.job["partition"] == "gpu"
    assert outcome.job["gres"] == "gpu:h200:1"
    assert outcome.job["time_limit"] == 60
    stamp, _, was = outcome.job["admin_comment"].partition(" was=")
    assert stamp == "berth=1 place=gpu"
    assert was.startswith("partition:auto;")
    assert outcome.user == ["berth: note: this job runs in gpu; opt out with --comment=berth:off"]
    assert outcome.complaints == []
    assert outcome.codes == [0]


def test_a_job_without_a_partition_may_be_moved(bench: FilterBench) -> None:
    assert answered(bench, move_to("gpu"), {}).job["partition"] == "gpu"


def test_a_new_shape_also_changes_what_sbatch_derived_from_the_old_one(bench: FilterBench) -> None:
    outcome = answered(
        bench,
        move_to("gpu", nodes=1, tasks=2, cpus_per_task=4, memory_mib_per_cpu=8000),
        {
            **AUTO,
            "num_tasks": 64,
            "min_nodes": 2,
            "max_nodes": 2,
            "min_cpus": 64,
            "pn_min_cpus": 32,
            "ntasks_per_node": 32,
            "min_mem_per_cpu": 1000,
        },
        environment={
            "SLURM_NTASKS": "64",
            "SLURM_NPROCS": "64",
            "SLURM_NTASKS_PER_NODE": "32",
            "HOME": "/",
        },
    )
    job = outcome.job
    assert (job["min_nodes"], job["max_nodes"], job["num_tasks"]) == (1, 1, 2)
    assert (job["cpus_per_task"], job["min_cpus"], job["pn_min_cpus"]) == (4, 8, 4)
    assert job["ntasks_per_node"] == 2
    assert job["min_mem_per_cpu"] == 8000
    assert "min_mem_per_node" not in job
    assert outcome.environment == {
        "SLURM_NTASKS": "2",
        "SLURM_NPROCS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_CPUS_PER_TASK": "4",
        "HOME": "/",
    }


def test_a_job_that_names_no_tasks_has_one_on_each_node_wherever_it_goes(
    bench: FilterBench,
) -> None:
    """srun and mpirun would start as many as fit on a whole node."""
    job = {**AUTO, "cpus_per_task": 4}
    moved = answered(bench, move_to("gpu"), job, environment={"HOME": "/"})
    assert moved.job["num_tasks"] == 1
    assert moved.environment == {"SLURM_NTASKS": "1", "SLURM_NPROCS": "1", "HOME": "/"}
    two = answered(bench, move_to("gpu"), {**job, "min_nodes": 2}, environment={"HOME": "/"})
    assert two.environment == {"SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "HOME": "/"}
    for whole in ({"shared": 0}, {"num_tasks": 8}, {"pn_min_cpus": 8}):
        kept = answered(bench, move_to("gpu"), {**job, **whole}, environment={"HOME": "/"})
        assert kept.environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("edits", "share", "goes"), [({}, 1, True), ({}, 0, False), ({"gres": "gpu:1"}, 1, False)]
)
def test_a_range_of_nodes_without_tasks_keeps_its_tasks_on_each_node(
    bench: FilterBench, edits: dict[str, str], share: int, goes: bool
) -> None:
    """Slurm chooses the number of nodes, and with it that of the tasks."""
    job = {**AUTO, "min_nodes": 2, "max_nodes": 3, "ntasks_per_node": 2}
    parts = partitions(gpu=partition(max_share=share))
    moved = answered(bench, move_to("gpu", **edits), job, parts=parts, environment={"HOME": "/"})
    assert moved.job["partition"] == ("gpu" if goes else "auto")
    assert "num_tasks" not in moved.job
    assert moved.environment == {"HOME": "/"}
    named = answered(bench, move_to("gpu", **edits), {**job, "num_tasks": 6}, parts=parts)
    assert named.job["partition"] == "gpu"
    assert named.job["max_nodes"] == (2 if edits else 3)  # each node would have GPUs of its own


@pytest.mark.parametrize(
    ("asked", "edits"),
    [
        ({"min_mem_per_cpu": 1000}, {"memory_mib_per_node": 4000}),
        ({"min_mem_per_node": 1000}, {"memory_mib_per_cpu": 4000}),
        ({}, {"memory_mib_per_node": 4000, "memory_mib_per_cpu": 4000}),
    ],
)
def test_memory_is_never_written_in_two_forms(
    bench: FilterBench, asked: dict[str, int], edits: dict[str, int]
) -> None:
    outcome = answered(bench, move_to("gpu", **edits), {**AUTO, **asked})
    assert outcome.job["partition"] == "auto"
    assert "two forms" in outcome.log[-1]


def test_cpus_in_tres_per_task_are_no_gres_and_follow_the_shape(bench: FilterBench) -> None:
    """Slurm 23.11 and later write ``--cpus-per-task=8`` there, too."""
    reply = move_to("gpu", gres="gpu:1", tasks=1, cpus_per_task=4)
    job = {**AUTO, "cpus_per_task": 8, "tres_per_task": "cpu=8"}
    with FakeDaemon(bench.socket, lambda _: reply) as daemon:
        outcome = bench.submit(job, environment={"SLURM_TRES_PER_TASK": "cpu=8"})
        both = bench.submit({**job, "tres_per_task": "cpu=8,gres/gpu:1"})
    assert "gres" not in daemon.requests[0]["job"]
    assert (outcome.job["tres_per_task"], outcome.job["gres"]) == ("cpu=4", "gpu:1")
    assert (outcome.environment or {})["SLURM_TRES_PER_TASK"] == "cpu=4"
    assert daemon.requests[1]["job"]["gres"] == "gres/gpu:1"
    assert both.job["partition"] == "auto"


@pytest.mark.parametrize(
    ("field", "text", "typed"),
    [
        ("gres", "gpu:1", "gpu:1g.5gb:1"),
        ("gres", "gres:gpu:2", "gres:gpu:1g.5gb:2"),
        ("gres", "gres:gpu", "gres:gpu:1g.5gb:1"),
        ("tres_per_job", "gres/gpu:1", "gres/gpu:1g.5gb:1"),
        ("tres_per_job", "gres/gpu=1", "gres/gpu:1g.5gb=1"),
        ("tres_per_task", "gres:gpu:1", "gres:gpu:1g.5gb:1"),
    ],
)
def test_gpus_of_any_type_get_a_type_and_keep_their_words(
    bench: FilterBench, field: str, text: str, typed: str
) -> None:
    moved = answered(bench, move_to("mig", gres="gpu:1g.5gb:1"), {**AUTO, field: text})
    assert (moved.job["partition"], moved.job[field]) == ("mig", typed)
    only = {"v": 1, "action": "edit", "edits": {"gres": "gpu:1g.5gb:1"}, "stamp": "berth/1 id=d1"}
    own = answered(bench, only, {"partition": "mig", field: text})
    assert (own.job["partition"], own.job[field]) == ("mig", typed)


@pytest.mark.parametrize(
    ("edits", "job"),
    [
        ({"gres": "gpu:1g.5gb:1"}, {"gres": "gpu:2g.10gb:1"}),
        ({"gres": "gpu:1g.5gb:1"}, {"gres": "gpu:1,shard:1"}),
        ({"gres": "gpu:1g.5gb:1"}, {"gres": "gpu:1", "tres_per_job": "gres/gpu:1"}),
        ({"gres": "gpu:1g.5gb:1", "nodes": 1}, {"gres": "gpu:1"}),
        ({"gres": "gpu:1g.5gb:1", "queue": "mig"}, {"gres": "gpu:1"}),
        ({"gres": "gpu:2"}, {"gres": "gpu:1"}),
        ({"gres": "shard:1g.5gb:1"}, {"gres": "gpu:1"}),
        ({"gres": "gpu:1g.5gb:1"}, {}),
        ({"nodes": 1}, {"gres": "gpu:1"}),
    ],
)
def test_in_a_partition_of_ones_own_nothing_else_is_changed(
    bench: FilterBench, edits: dict[str, Any], job: dict[str, Any]
) -> None:
    given = {"partition": "cpu", **job}
    outcome = answered(bench, {"v": 1, "action": "edit", "edits": edits}, given)
    assert {key: outcome.job.get(key) for key in (*given, "min_nodes", "tres_per_job")} == {
        key: given.get(key) for key in (*given, "min_nodes", "tres_per_job")
    }


def test_a_list_of_partitions_is_taken_where_each_takes_the_job(bench: FilterBench) -> None:
    assert answered(bench, move_to("gpu,cpu"), AUTO).job["partition"] == "gpu,cpu"
    for listed in ("gpu,secret", "cpu,auto", "gpu,", ",", ""):
        assert answered(bench, move_to(listed), AUTO).job["partition"] == "auto"
    long = {**AUTO, "time_limit": 1441}
    assert answered(bench, move_to("cpu,gpu"), long).job["partition"] == "auto"


def test_a_keep_with_stamp_and_message_changes_nothing_else(bench: FilterBench) -> None:
    reply = {**KEEP, "stamp": "berth=1 advise=gpu", "message": "berth: gpu would be 3x faster"}
    outcome = answered(bench, reply, AUTO)
    assert outcome.job["partition"] == "auto"
    assert outcome.job["admin_comment"] == "berth=1 advise=gpu"
    assert outcome.user == ["berth: note: gpu would be 3x faster"]


def test_a_stamp_is_added_to_what_another_filter_wrote(bench: FilterBench) -> None:
    outcome = answered(bench, {**KEEP, "stamp": "berth=1"}, {**AUTO, "admin_comment": "site"})
    assert outcome.job["admin_comment"] == "site berth=1"


def test_messages_are_one_printable_line_of_bounded_length(bench: FilterBench) -> None:
    reply = {**KEEP, "message": "a%s\n\x1b[31m" + "x" * 5000, "stamp": "s" * 513}
    outcome = answered(bench, reply, AUTO)
    assert outcome.user[0].startswith("berth: note: a%s [31mxxx")
    assert len(outcome.user[0]) == 500
    assert "admin_comment" not in outcome.job


REFUSED = {
    "the user chose the partition": (move_to("gpu"), {"partition": "cpu"}),
    "several partitions are a choice": (move_to("gpu"), {"partition": "auto,cpu"}),
    "a partition that is not there": (move_to("secret"), AUTO),
    "the place for undecided jobs": (move_to("auto"), AUTO),
    "the user chose nodes": (move_to("gpu"), {**AUTO, "req_nodes": "cpu1"}),
    "the user excluded nodes": (move_to("gpu"), {**AUTO, "exc_nodes": "gpu1"}),
    "the user chose a reservation": (move_to("gpu"), {**AUTO, "reservation": "r"}),
    "the user chose features": (move_to("gpu", features="h200"), {**AUTO, "features": "avx2"}),
    "the user chose gres": (move_to("gpu", gres="gpu:1"), {**AUTO, "gres": "gres:gpu:2"}),
    "the user chose GPUs in all": (move_to("gpu", gres="gpu:1"), {**AUTO, "tres_per_job": "gpu:2"}),
    "a lowered time limit": (move_to("gpu", time_limit_min=5), {**AUTO, "time_limit": 10}),
    "over the partition's time": (move_to("gpu", time_limit_min=1441), AUTO),
    "asked time over the partition's": (move_to("gpu"), {**AUTO, "time_limit": 1441}),
    "more nodes than there are": (move_to("gpu", nodes=5), AUTO),
    "asked nodes more than there are": (move_to("gpu"), {**AUTO, "min_nodes": 5}),
    "more CPUs than there are": (move_to("gpu", tasks=129), AUTO),
    "edits without a partition": ({"v": 1, "action": "edit", "edits": {"tasks": 2}}, AUTO),
    "an edit without a stamp": ({**move_to("gpu"), "stamp": None}, AUTO),
    "half a task": (move_to("gpu", tasks=1.5), AUTO),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_edit_is_refused_as_a_whole(bench: FilterBench, case: str) -> None:
    reply, job = REFUSED[case]
    given = {"user_id": 5, "user_name": "games", "name": "job", "script": "#!/bin/sh\ntrue\n"}
    outcome = answered(bench, reply, job)
    assert outcome.job == {**given, **job}
    assert outcome.codes == [0]
    assert outcome.log
    assert "was not carried out" in outcome.log[0]
    assert not any("runs in" in line for line in outcome.user)


def test_an_interactive_job_keeps_its_shape(bench: FilterBench) -> None:
    """srun starts its step with the tasks it was given, whatever the allocation became."""
    kept = answered(bench, move_to("gpu", tasks=1), {**AUTO, "num_tasks": 8}, batch=False)
    assert kept.job["partition"] == "auto"
    moved = answered(bench, move_to("gpu", gres="gpu:1"), {**AUTO, "num_tasks": 8}, batch=False)
    assert moved.job["partition"] == "gpu"


CLOSED = {
    "down": partition(state_up=1),
    "draining": partition(state_up=2),
    "needs a reservation": partition(flags=0x10),
    "other submit hosts": partition(allow_alloc_nodes="login9"),
    "other accounts": partition(allow_accounts="chemistry,biology"),
    "denied account": partition(deny_accounts="x,physics"),
    "other QOS": partition(allow_qos="high"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_a_partition_that_would_refuse_the_job_is_neither_offered_nor_accepted(
    bench: FilterBench, case: str
) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        outcome = bench.submit({**AUTO, "account": "physics"}, parts=partitions(gpu=CLOSED[case]))
    assert daemon.requests[0]["job"]["queues"] == ["cpu", "mig"]
    assert outcome.job["partition"] == "auto"


def test_an_account_that_is_allowed_by_name_is_offered(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        bench.submit(
            {**AUTO, "default_account": "physics"},
            parts=partitions(gpu=partition(allow_accounts="chemistry,physics")),
        )
        bench.submit({**AUTO, "default_account": "physics", "account": "biology"})
    asked = [request["job"] for request in daemon.requests]
    assert "gpu" in asked[0]["queues"]
    assert [(job.get("account"), job.get("default_account")) for job in asked] == [
        (None, "physics"), ("biology", None),
    ]  # fmt: skip


FIELDS = ("partition", "gres", "min_nodes", "num_tasks", "cpus_per_task", "time_limit",
          "min_mem_per_node", "min_cpus", "features", "admin_comment")  # fmt: skip


@pytest.mark.parametrize("poison", FIELDS)
def test_when_one_field_cannot_be_set_all_earlier_ones_are_put_back(
    bench: FilterBench, poison: str
) -> None:
    job = {
        **AUTO,
        "num_tasks": 4,
        "time_limit": 10,
        "user_id": 5,
        "user_name": "games",
        "name": "job",
        "script": "#!/bin/sh\ntrue\n",
    }
    environment = {"SLURM_NTASKS": "4"}
    reply = move_to(
        "gpu", gres="gpu:1", nodes=1, tasks=2, cpus_per_task=2, time_limit_min=20,
        memory_mib_per_node=100, features="h200",
    )  # fmt: skip
    outcome = answered(bench, reply, job, environment=environment, poison=poison)
    assert outcome.job == job
    assert outcome.environment is not None
    assert {k: v for k, v in outcome.environment.items() if v} == environment
    assert not any("runs in" in line for line in outcome.user)


OPT_OUTS = [
    ({"comment": "berth:off"}, {}),
    ({"comment": "thesis, berth:off"}, {}),
    ({}, {"BERTH_MODE": "off"}),
]


@pytest.mark.parametrize(("job", "environment"), OPT_OUTS)
def test_who_opts_out_is_not_even_asked_about(
    bench: FilterBench, job: dict[str, str], environment: dict[str, str]
) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        outcome = bench.submit({**AUTO, **job}, environment=environment)
    assert daemon.requests == []
    assert outcome.job["partition"] == "auto"
    assert outcome.user == []


def test_modification_is_never_touched(bench: FilterBench) -> None:
    assert answered(bench, KEEP, {}).modify == 0


@pytest.mark.parametrize("library", ["socket", "socket.unix", "cjson"])
def test_a_missing_library_stops_neither_slurmctld_nor_jobs(
    bench: FilterBench, library: str
) -> None:
    # The stub itself needs the libraries: only what is loaded after it finds one missing.
    prelude = (
        f"local load = dofile; function dofile(path) package.loaded['{library}'] = nil; "
        f"package.preload['{library}'] = function() error('not installed') end; "
        "return load(path) end"
    )
    outcome = bench.submit(AUTO, prelude=prelude)
    assert outcome.codes == [0]
    assert outcome.job["partition"] == "auto"
    assert "missing" in outcome.log[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
edit_names = st.sampled_from(
    ["queue", "features", "gres", "nodes", "tasks", "cpus_per_task", "memory_mib_per_node",
     "time_limit_min", "other"]
)  # fmt: skip


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=st.dictionaries(edit_names, json_values), rest=st.dictionaries(st.text(), json_values))
def test_whatever_the_answer_the_job_lands_in_an_open_partition_or_stays(
    bench: FilterBench, edits: dict[str, Any], rest: dict[str, Any]
) -> None:
    reply = {**rest, "v": 1, "action": "edit", "edits": edits}
    outcome = answered(bench, json.dumps(reply).encode() + b"\n", {**AUTO, "num_tasks": 4})
    assert outcome.codes == [0]
    assert outcome.job["partition"] in ("auto", "cpu", "gpu", "mig")
    if outcome.job["partition"] == "auto":
        assert outcome.job["num_tasks"] == 4


def test_a_bad_configuration_line_keeps_the_default_and_is_named(bench: FilterBench) -> None:
    bench.settings = {"deadline_ms": "soon", "colour": "red", "# a comment": ""}
    outcome = answered(bench, move_to("gpu"), AUTO)
    assert outcome.job["partition"] == "gpu"
    assert any("deadline_ms must be a number from 1 to 1000" in line for line in outcome.log)
    assert any("colour is not a known key" in line for line in outcome.log)
