"""The filter checks every answer itself: any edit it must not make leaves the job as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, move_to
from flux_bench import FluxBench, asking, flux_config, recorded, without_notes


def refused(bench: FluxBench, spec: dict[str, Any], answer: Any) -> None:
    """The answer is not carried out, and nothing of it is written down."""
    with FakeDaemon(bench.socket, lambda _: answer):
        assert bench.frob(spec) == spec


def impossible(bench: FluxBench, spec: dict[str, Any], answer: Any, reason: str) -> None:
    """Flux cannot carry the answer out: the job stays, and says why."""
    stamp = "berth/1 id=x action=edit code=placed to=gpu"
    with FakeDaemon(bench.socket, lambda _: {**answer, "stamp": stamp}):
        found = bench.frob(spec)
    notes = found["attributes"]["user"]["berth"]
    assert without_notes(found) == spec
    assert notes["decision"] == "berth/1 id=x action=keep code=untranslated to=gpu"
    assert reason in notes["message"]


@pytest.mark.parametrize(
    "edits",
    [
        {"queue": "gpu", "gres": "gpu"},
        {"queue": "gpu", "gres": "gpu:0"},
        {"queue": "gpu", "gres": "fpga:1"},
        {"queue": "gpu", "gres": "gpu:1;rm"},
        {"queue": "gpu", "features": "a|b"},
        {"queue": "gpu", "features": "a&"},
    ],
    ids=json.dumps,
)
def test_an_edit_that_flux_has_no_form_for_is_none_of_them_made(
    bench: FluxBench, edits: dict[str, Any]
) -> None:
    refused(bench, asking(), {"v": 1, "action": "edit", "edits": edits, "stamp": "berth/1 id=x"})


@pytest.mark.parametrize(
    ("change", "edits"),
    [
        ({"queue": "cpu"}, {"queue": "gpu"}),
        ({"queue": "cpu"}, {"queue": "cpu", "nodes": 2, "tasks": 2}),
        ({"constraints": {"properties": ["h200"]}}, {"queue": "gpu", "features": "gpunode"}),
        ({"constraints": {"hostlist": ["node1"]}}, {"queue": "gpu"}),
        ({"constraints": {"not": [{"ranks": ["1"]}]}}, {"queue": "gpu"}),
        ({"duration": 7200.0}, {"queue": "gpu", "time_limit_min": 60}),
        ({"duration": 3601}, {"queue": "gpu", "time_limit_min": 60}),
    ],
)
def test_what_the_user_chose_stays(
    bench: FluxBench, change: dict[str, Any], edits: dict[str, Any]
) -> None:
    spec = asking()
    spec["attributes"]["system"].update(change)
    refused(bench, spec, {"v": 1, "action": "edit", "edits": edits})


@pytest.mark.parametrize(
    ("form", "edits"),
    [
        ("n1", {"gres": "gpu:3", "nodes": 1, "tasks": 2}),
        ("N2n4c2", {"gres": "gpu:1"}),
        ("N2n4c2", {"nodes": 3}),
    ],
)
def test_what_cannot_be_divided_alike_keeps_the_job(
    bench: FluxBench, form: str, edits: dict[str, Any]
) -> None:
    impossible(bench, asking(form), move_to("gpu", **edits), "alike")


@pytest.mark.parametrize("gres", ["gpu:1", "gpu:4"])
def test_the_users_number_of_gpus_stays(bench: FluxBench, gres: str) -> None:
    refused(bench, asking("n2g1_gpu"), move_to("gpu", gres=gres, nodes=1))


@pytest.mark.parametrize("form", ["N1x", "alloc", "batch", "tpn"])
@pytest.mark.parametrize("edit", ["nodes", "tasks", "cpus_per_task", "memory_mib_per_node"])
def test_whole_nodes_and_nested_instances_keep_their_shape(
    bench: FluxBench, form: str, edit: str
) -> None:
    refused(bench, asking(form), move_to("gpu", **{edit: 4}))


LIMITS = {
    "duration": {"duration": "1h"},
    "most nodes": {"job-size": {"max": {"nnodes": 1}}},
    "most cores": {"job-size": {"max": {"ncores": 3}}},
    "fewest gpus": {"job-size": {"min": {"ngpus": 1}}},
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("level", ["queue", "instance"])
def test_a_job_is_not_sent_where_flux_would_refuse_it(
    bench: FluxBench, limit: str, level: str
) -> None:
    config = flux_config()
    if level == "queue":
        config["queues"]["gpu"]["policy"] = {"limits": LIMITS[limit]}
    else:
        config["policy"]["limits"] = LIMITS[limit]
    bench.config = config
    spec = asking("N2n4c2")
    spec["attributes"]["system"]["duration"] = 7200.0
    impossible(bench, spec, move_to("gpu"), "gpu: ")


def test_within_the_limits_it_is_sent(bench: FluxBench) -> None:
    config = flux_config()
    config["policy"]["limits"] = {"duration": "1m", "job-size": {"max": {"nnodes": 1}}}
    config["queues"]["gpu"]["policy"] = {
        "limits": {"duration": "2h", "job-size": {"max": {"nnodes": -1, "ncores": 8}}}
    }
    bench.config = config
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        found = bench.frob(asking("N2n4c2"))
    assert found["attributes"]["system"]["queue"] == "gpu"


def test_without_a_limit_a_job_does_not_go_where_it_needs_one(bench: FluxBench) -> None:
    config = flux_config()
    del config["policy"]["jobspec"]["defaults"]["system"]["duration"]
    config["queues"]["gpu"]["policy"] = {"limits": {"duration": 3600}}
    bench.config = config
    impossible(bench, asking(), move_to("gpu"), "over the queue's time limit")
    with FakeDaemon(bench.socket, lambda _: move_to("gpu", time_limit_min=30)):
        assert bench.frob(asking())["attributes"]["system"]["duration"] == 1800.0


@pytest.mark.parametrize("change", [{"mode": "off"}, {"workload": "off"}])
def test_a_job_that_says_off_is_not_even_asked_about(
    bench: FluxBench, change: dict[str, str]
) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        spec = asking(**change)
        assert bench.frob(spec) == spec
    assert daemon.requests == []


@pytest.mark.parametrize("word", [False, True, ["off"], {"off": True}, 0, "\ud800"])
def test_what_is_written_about_berth_and_is_no_text_leaves_the_job_alone(
    bench: FluxBench, word: Any
) -> None:
    """V8: ``--setattr=user.berth.mode=false`` is a boolean, and means off."""
    for key in ("mode", "workload"):
        spec = asking()
        spec["attributes"]["user"]["berth"][key] = word
        refused(bench, spec, move_to("gpu"))


@pytest.mark.parametrize("queue", [5, ["gpu"], True])
def test_a_queue_that_flux_would_refuse_is_not_replaced(bench: FluxBench, queue: Any) -> None:
    spec = asking()
    spec["attributes"]["system"]["queue"] = queue
    refused(bench, spec, move_to("gpu"))


def test_a_kill_switch_that_cannot_be_looked_at_stops_us(bench: FluxBench) -> None:
    bench.settings["kill_switch"] = "/" + "x" * 5000
    refused(bench, asking(), move_to("gpu"))


@pytest.mark.parametrize("version", [0, 2, 9999, "1", None, 1.0, True])
def test_a_jobspec_of_another_version_passes_through(bench: FluxBench, version: Any) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        spec = {**asking(), "version": version}
        assert bench.frob(spec) == spec
    assert daemon.requests == []


@pytest.mark.parametrize(
    "resources",
    [
        [{"type": "slot", "count": {"min": 1, "max": 4}, "label": "task", "with": []}],
        [{"type": "slot", "count": "2-4", "label": "task", "with": [{"type": "core", "count": 1}]}],
        [{"type": "rack", "count": 1, "with": []}],
        [{"type": "node", "count": 1}],
        [],
        [{"type": "slot", "count": 1, "label": "other", "with": [{"type": "core", "count": 1}]}],
    ],
)
def test_a_form_that_is_not_known_passes_through(bench: FluxBench, resources: list[Any]) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        spec = {**asking(), "resources": resources}
        assert bench.frob(spec) == spec
    assert daemon.requests == []


def test_a_vertex_that_is_not_ours_keeps_the_shape_but_not_the_queue(bench: FluxBench) -> None:
    spec = asking()
    spec["resources"][0]["with"].append({"type": "ssd", "count": 1})
    refused(bench, spec, move_to("gpu", tasks=2))
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        assert bench.frob(spec)["attributes"]["system"]["queue"] == "gpu"


def test_a_users_attribute_of_our_name_is_not_overwritten(bench: FluxBench) -> None:
    spec = recorded("n1")
    for value in (3, "x", [1], None):
        spec["attributes"]["user"] = {"berth": value}
        refused(bench, spec, {**KEEP, "stamp": "berth/1 id=x"})


@pytest.mark.parametrize("stamp", [None, "", 7, "x" * 600])
def test_no_change_is_made_that_its_decision_does_not_explain(
    bench: FluxBench, stamp: object
) -> None:
    refused(bench, asking(), {**move_to("gpu"), "stamp": stamp})
    spec = asking()
    spec["attributes"]["user"]["berth"] = 3
    refused(bench, spec, move_to("gpu"))


def test_stamps_and_messages_are_one_short_line(bench: FluxBench) -> None:
    reply = {**KEEP, "stamp": "a\nb\x00c", "message": "x" * 3000}
    with FakeDaemon(bench.socket, lambda _: reply):
        notes = bench.frob(recorded("n1"))["attributes"]["user"]["berth"]
    assert notes == {"decision": "a b c", "message": "x" * 400}
    for bad in ({"stamp": "x" * 600}, {"stamp": 5, "message": {}}, {"stamp": "\ud800"}):
        refused(bench, recorded("n1"), {**KEEP, **bad})


LAID_OUT: dict[str, Any] = {
    "cyclic by two": {"taskmap": {"scheme": "cyclic", "value": "2"}},
    "by hand": {"taskmap": {"scheme": "manual", "value": "[[0,2,2,1]]"}},
    "cores of tasks": {"cpu-affinity": "map:0-1;2-3"},
    "GPUs of tasks": {"gpu-affinity": "map:0;1"},
    "an unknown plugin": {"cluster-tool": {"ranks": 4}},
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_tasks_that_are_laid_out_keep_their_shape(bench: FluxBench, name: str) -> None:
    spec = asking("N2n4c2")
    spec["attributes"]["system"]["shell"]["options"].update(LAID_OUT[name])
    refused(bench, spec, move_to("gpu", nodes=1, tasks=1))
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        assert bench.frob(spec)["attributes"]["system"]["queue"] == "gpu"


def test_options_that_mean_the_same_in_every_shape_are_no_hindrance(bench: FluxBench) -> None:
    spec = asking("n1")
    spec["attributes"]["system"]["shell"]["options"].update(
        {"taskmap": {"scheme": "block", "value": ""}, "cpu-affinity": "per-task", "verbose": 1}
    )
    with FakeDaemon(bench.socket, lambda _: move_to("gpu", nodes=1, tasks=2)):
        assert bench.frob(spec)["resources"][0]["with"][0]["count"] == 2


def test_several_programs_keep_their_number_of_tasks(bench: FluxBench) -> None:
    spec = asking("n1")
    spec["tasks"][0]["command"] = ["flux", "multi-prog", "programs.conf"]
    refused(bench, spec, move_to("gpu", nodes=1, tasks=2))


@pytest.mark.parametrize(
    ("key", "settings"), [("alloc-bypass", {}), ("wish", {"leave_alone": "x wish"})]
)
def test_an_attribute_that_cannot_be_carried_keeps_the_job_and_is_named(
    bench: FluxBench, key: str, settings: dict[str, str]
) -> None:
    bench.settings.update(settings)
    spec = asking()
    spec["attributes"]["system"][key] = {"R": {}}
    impossible(bench, spec, move_to("gpu"), f"system.{key}")
