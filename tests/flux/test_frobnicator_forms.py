"""Each recorded form of a jobspec: what the daemon is sent of it, and how an answer changes it."""

from __future__ import annotations

from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from flux_bench import FORMS, FluxBench, asking, recorded, recorded_lines, without_notes

SENT: dict[str, dict[str, Any]] = {
    "n1": {"tasks": 1, "cpus_per_task": 1},
    "attr": {"tasks": 1, "cpus_per_task": 1},
    "dep": {"tasks": 1, "cpus_per_task": 1},
    "N1x": {"nodes": 1, "tasks": 1, "cpus_per_task": 1, "exclusive": 1, "pinned": ["shape"]},
    "N2n4c2": {"nodes": 2, "tasks": 4, "cpus_per_task": 2, "time_limit_s": 1800},
    "n2g1_gpu": {"tasks": 2, "cpus_per_task": 1, "gpus": 2},
    "shape": {"nodes": 1, "tasks": 2, "cpus_per_task": 2, "gpus": 2},
    "tpn": {"nodes": 2, "tasks": 4, "cpus_per_task": 1, "exclusive": 1, "pinned": ["shape"]},
    "requires": {"tasks": 1, "cpus_per_task": 1, "gpus": 1},
    "alloc": {
        "kind": "interactive",
        "nodes": 2,
        "tasks": 2,
        "cpus_per_task": 1,
        "gpus": 2,
        "time_limit_s": 3600,
        "exclusive": 1,
        "pinned": ["shape"],
    },
    "batch": {
        "nodes": 1,
        "tasks": 1,
        "cpus_per_task": 1,
        "time_limit_s": 600,
        "exclusive": 1,
        "pinned": ["shape"],
        "name": "/etc/flux/plugin.py",
        "script": "#!/bin/sh\n#flux: -N1\n#flux: -t 10m\nflux run hostname\n",
    },
}


def test_every_recorded_form_is_known() -> None:
    assert set(FORMS) == set(SENT)


@pytest.mark.parametrize("form", FORMS)
def test_the_daemon_is_sent_what_the_form_asks_for(bench: FluxBench, form: str) -> None:
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        spec = asking(form)
        assert bench.frob(spec) == spec
    (request,) = daemon.requests
    job = request.pop("job")
    assert request == {"v": 1, "op": "decide", "scheduler": "flux"}
    job.pop("features", None)
    assert job == {
        "uid": 1000,
        "queue": "auto",
        "queues": ["cpu", "gpu", "mig"],
        "workload": "stream",
        "kind": "batch",
        **SENT[form],
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_queue_is_all_that_changes_where_the_shape_stays(bench: FluxBench, form: str) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        spec = asking(form)
        found = bench.frob(spec)
    spec["attributes"]["system"]["queue"] = "gpu"
    assert without_notes(found) == without_notes(spec)
    assert found["attributes"]["user"]["berth"]["decision"] == "berth=1 place=gpu"


SLOT = {"type": "slot", "label": "task"}
CORE = {"type": "core", "count": 1}
GPU = {"type": "gpu", "count": 1}


@pytest.mark.parametrize(
    ("form", "edits", "resources"),
    [
        # One task moves to one GPU with eight cores: no node vertex for one task.
        (
            "n1",
            {"gres": "gpu:a100:1", "nodes": 1, "cpus_per_task": 8},
            [{**SLOT, "count": 1, "with": [{**CORE, "count": 8}, GPU]}],
        ),
        # Four GPUs on one node for four tasks.
        (
            "n1",
            {"gres": "gpu:4", "nodes": 1, "tasks": 4, "cpus_per_task": 8},
            [
                {
                    "type": "node",
                    "count": 1,
                    "with": [{**SLOT, "count": 4, "with": [{**CORE, "count": 8}, GPU]}],
                }
            ],
        ),
        # Two tasks on three nodes cannot be alike: Flux spreads them.
        ("n1", {"nodes": 3, "tasks": 4}, [{**SLOT, "count": 4, "with": [CORE]}]),
        (
            "N2n4c2",
            {"nodes": 1},
            [
                {
                    "type": "node",
                    "count": 1,
                    "with": [{**SLOT, "count": 4, "with": [{**CORE, "count": 2}]}],
                }
            ],
        ),
        (
            "N2n4c2",
            {"nodes": 1, "tasks": 2, "cpus_per_task": 4, "gres": "gpu:2"},
            [
                {
                    "type": "node",
                    "count": 1,
                    "with": [{**SLOT, "count": 2, "with": [{**CORE, "count": 4}, GPU]}],
                }
            ],
        ),
        # The user's two GPUs stay two, in another shape.
        (
            "n2g1_gpu",
            {"nodes": 1, "tasks": 1, "gres": "gpu:2"},
            [{**SLOT, "count": 1, "with": [CORE, {**GPU, "count": 2}]}],
        ),
    ],
)
def test_an_edited_shape_is_written_as_flux_would(
    bench: FluxBench, form: str, edits: dict[str, Any], resources: list[Any]
) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu", **edits)):
        found = bench.frob(asking(form))
    assert found["resources"] == resources
    assert found["tasks"] == recorded(form)["tasks"]
    assert found["attributes"]["system"]["queue"] == "gpu"


@pytest.mark.parametrize("nested", [False, True])
def test_tasks_share_a_gpu_in_one_slot(bench: FluxBench, nested: bool) -> None:
    spec = asking("N2n4c2")
    if nested:  # one broker, whose programs have all of the cores
        spec["tasks"][0]["command"] = ["flux", "broker"]
        spec["attributes"]["system"]["files"] = {"script": {"data": "true"}}
    with FakeDaemon(bench.socket, lambda _: move_to("gpu", nodes=1, gres="gpu:1")):
        found = bench.frob(spec)
    slot = {**SLOT, "count": 1, "with": [{**CORE, "count": 8}, GPU]}
    assert found["resources"] == [{"type": "node", "count": 1, "with": [slot]}]
    assert found["tasks"][0]["count"] == ({"per_slot": 1} if nested else {"total": 4})


def test_constraints_and_duration_are_written_as_flux_reads_them(bench: FluxBench) -> None:
    answer = move_to("gpu", features="gpunode&h200", time_limit_min=45)
    with FakeDaemon(bench.socket, lambda _: answer):
        system = bench.frob(asking("N2n4c2"))["attributes"]["system"]
    assert system["constraints"] == {"properties": ["gpunode", "h200"]}
    assert system["duration"] == 2700.0


def test_memory_is_no_resource_of_flux_and_changes_nothing(bench: FluxBench) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("cpu", memory_mib_per_node=4096)):
        found = bench.frob(asking())
    assert found["resources"] == recorded("n1")["resources"]
    assert found["attributes"]["system"]["queue"] == "cpu"


def test_an_instance_without_named_queues_is_placed_by_properties(bench: FluxBench) -> None:
    bench.config = {"ingest": {"frobnicator": {}}}
    with FakeDaemon(bench.socket, lambda _: move_to("anonymous", features="gpunode")) as daemon:
        found = bench.frob(asking(queue=None))
    assert daemon.requests[0]["job"]["queues"] == ["anonymous"]
    system = found["attributes"]["system"]
    assert "queue" not in system
    assert system["constraints"] == {"properties": ["gpunode"]}


def test_keeping_a_job_only_writes_the_decision_down(bench: FluxBench) -> None:
    reply: Reply = {**KEEP, "stamp": "berth/1 id=x action=keep", "message": "No workload."}
    for info in recorded_lines("frob_in"):
        spec = info["jobspec"]
        with FakeDaemon(bench.socket, lambda _: reply):
            found = bench.frob(spec, info["userid"])
        assert without_notes(found) == without_notes(spec)
        notes = found["attributes"]["user"]["berth"]
        assert notes == {"decision": "berth/1 id=x action=keep", "message": "No workload."}


@pytest.mark.parametrize(
    ("where", "value", "sent"),
    [
        (("system", "bank"), "physics", {"account": "physics"}),
        (("system", "job"), {"name": "run 7"}, {"name": "run 7"}),
        (("system", "environment"), {"BERTH_WORKLOAD": "lu", "A": "1"}, {"workload": "stream"}),
        (("system", "constraints"), {"properties": ["h200", "ib"]}, {"features": "h200&ib"}),
        (
            ("system", "constraints"),
            {"hostlist": ["node1"]},
            {"features": '{"hostlist": ["node1"]}', "pinned": ["nodelist"]},
        ),
        (("system", "duration"), "90s", {"time_limit_s": 90}),
        (("system", "duration"), 0.5, {"time_limit_s": 1}),
        (("system", "queue"), "gpu", {"queue": "gpu"}),
        (("system", "shell"), {"options": {"pty": {"interactive": 1}}}, {"kind": "interactive"}),
    ],
)
def test_attributes_are_sent_in_the_protocols_words(
    bench: FluxBench, where: tuple[str, str], value: Any, sent: dict[str, Any]
) -> None:
    spec = asking()
    spec["attributes"][where[0]][where[1]] = value
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.frob(spec)
    job = daemon.requests[0]["job"]
    assert {key: job[key] for key in sent} == sent


def test_the_environment_names_the_profile_where_no_attribute_does(bench: FluxBench) -> None:
    spec = recorded("n1")
    spec["attributes"]["system"]["environment"] = {"BERTH_WORKLOAD": "lu", "BERTH_MODE": "advise"}
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.frob(spec)
    job = daemon.requests[0]["job"]
    assert (job["workload"], job["mode"]) == ("lu", "advise")


def test_a_script_is_sent_with_its_arguments_or_not_at_all(bench: FluxBench) -> None:
    spec = asking("batch")
    command = spec["tasks"][0]["command"]
    command += ["--steps", "", "10"]
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        bench.frob(spec)
        command.append("x" * 5000)
        bench.frob(spec)
        command[-1] = "\udc80"  # bytes that are not UTF-8, as Flux hands them on
        bench.frob(spec)
    first, second, third = (request["job"] for request in daemon.requests)
    assert first["arguments"] == ["--steps", "", "10"]
    assert all("script" not in job and job["kind"] == "batch" for job in (second, third))
