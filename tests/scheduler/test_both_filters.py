"""docs/protocol.md for both filters: its answers do the same to a job of either scheduler, and its
requests get the same decision under either's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import forecast, harbour
from fake_daemon import FakeDaemon
from filter_bench import FilterBench, partition, require_lua
from flux_bench import FluxBench, asking, flux_config, without_notes
from made_forecasts import put

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
EXAMPLES = [
    (json.loads(request), json.loads(reply))
    for request, reply in re.findall(
        r"```json request\n(.*?)\n```\n```json reply\n(.*?)\n```", PAGE, re.DOTALL
    )
]
DECISIONS = [(q, a) for q, a in EXAMPLES if q.get("op") == "decide" and "job" in q]
NEW = ("stamp", "decision", "message")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Any]:
    """A real daemon that knows the workload of the page's examples."""
    with harbour() as site:
        put(site.store(), forecast("stream"))
        yield site.start()


def same(reply: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reply.items() if key not in NEW}


@pytest.mark.parametrize("example", range(len(DECISIONS)))
def test_either_scheduler_gets_the_same_decision(daemon: Any, example: int) -> None:
    request, expected = DECISIONS[example]
    job = request["job"]
    for scheduler in ("slurm", "flux"):
        reply = daemon.ask(op="decide", scheduler=scheduler, job=job)
        assert same(reply) == expected


SHAPES = [
    {},
    {"tasks": 4, "cpus_per_task": 2},
    {"nodes": 2, "tasks": 4},
    {"time_limit_min": 1},
    {"time_limit_min": 600},
    {"gpus": 1},
    {"features": "fast"},
    {"kind": "interactive"},
    {"queue": "cpu"},
    {"queue": None},
    {"mode": "shadow"},
    {"mode": "off"},
    {"pinned": ["nodelist"]},
    {"queues": ["cpu"]},
    {"workload": "unheard-of"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=json.dumps)
def test_the_same_job_is_the_same_to_both(daemon: Any, shape: dict[str, Any]) -> None:
    job = {"user": "alice", "kind": "batch", "queue": "auto", "workload": "stream", **shape}
    replies = [daemon.ask(op="decide", scheduler=s, job=job) for s in ("slurm", "flux")]
    assert same(replies[0]) == same(replies[1])
    marks = [re.sub(r"id=\w+", "", reply.get("stamp", "")) for reply in replies]
    assert marks[0] == marks[1]


@pytest.mark.parametrize("example", range(len(DECISIONS)))
def test_both_filters_do_the_same_with_an_answer(
    tmp_path: Path, bench: FluxBench, example: int
) -> None:
    """The page's answer to a job for the auto queue: the queue, tasks and GPUs that come out."""
    require_lua()
    _, answer = DECISIONS[example]
    reply = {**answer, "stamp": "berth/1 id=x action=keep code=y"}
    lua = FilterBench(tmp_path)
    parts = {name: partition() for name in ("auto", "cpu", "gpu")}
    with FakeDaemon(lua.socket, lambda _: reply):
        slurm = lua.submit({"partition": "auto", "comment": "berth:stream"}, parts=parts).job
    bench.config = flux_config()
    with FakeDaemon(bench.socket, lambda _: reply):
        flux = bench.frob(asking())
    edits = answer.get("edits", {})
    queue = edits.get("queue", "auto")
    assert slurm["partition"] == flux["attributes"]["system"]["queue"] == queue
    stamp, _, was = slurm["admin_comment"].partition(" was=")
    assert was.startswith("partition:auto;") == bool(edits)
    assert stamp == flux["attributes"]["user"]["berth"]["decision"]
    (slot,) = flux["resources"]
    has = {leaf["type"]: leaf["count"] for leaf in slot["with"]}
    assert has["core"] == slurm.get("cpus_per_task", 1) == edits.get("cpus_per_task", 1)
    gpus = int(edits["gres"].rpartition(":")[2]) if "gres" in edits else 0
    assert has.get("gpu", 0) == gpus
    assert slurm.get("gres") == edits.get("gres")
    if not edits:
        assert without_notes(flux) == without_notes(asking())
