"""Mutated jobspecs of every recorded form: our change and nothing else, or the exact original."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from fake_daemon import FakeDaemon, move_to
from flux_bench import FORMS, FluxBench, Jobspec, asking, flux_config, load_filter, recorded_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from json_mutations import mutate, places
from thorough import examples

EDITS: tuple[dict[str, Any], ...] = (
    {"queue": "gpu"},
    {"queue": "gpu", "gres": "gpu:1", "nodes": 1, "cpus_per_task": 8},
    {"queue": "mig", "gres": "gpu:2", "nodes": 1, "tasks": 2, "features": "a&b"},
    {"queue": "cpu", "time_limit_min": 600, "memory_mib_per_node": 10},
    {"queue": "cpu", "nodes": 2, "tasks": 8, "cpus_per_task": 1},
)


def seeds() -> list[dict[str, Any]]:
    found = [asking(form) for form in FORMS]
    return found + [line["jobspec"] for line in recorded_lines("frob_in")]


SEEDS = seeds()


def parts() -> list[str]:
    """Everything inside the recorded forms, as JSON."""
    return sorted({json.dumps(holder[key]) for seed in SEEDS for holder, key in places(seed)})


PARTS = parts()


canonical = json.JSONEncoder(sort_keys=True, check_circular=False).encode
"""The meaning, with types apart: 1, 1.0 and true differ."""


def check(before: dict[str, Any], after: dict[str, Any], edits: dict[str, Any]) -> bool:
    """Whether more than notes was changed; asserts that only what the edits name was."""
    if canonical(before) == canonical(after):
        return False
    (task,), expected = after["tasks"], before["tasks"]
    if "gres" in edits and set(task["count"]) == {"total"}:
        expected = [{**expected[0], "count": task["count"]}]  # the tasks share a slot
    assert after["tasks"] == expected
    assert after["version"] == before["version"] == 1
    assert set(after) == set(before)
    old, new = before["attributes"], after["attributes"]
    assert {k: v for k, v in old.items() if k not in ("system", "user")} == {
        k: v for k, v in new.items() if k not in ("system", "user")
    }
    changed = {
        key
        for key in set(old["system"]) | set(new["system"])
        if canonical(old["system"].get(key)) != canonical(new["system"].get(key))
    }
    if not changed:
        assert after["resources"] == before["resources"]
        return False
    assert changed <= {"queue", "duration", "constraints"}
    assert new["system"]["queue"] == edits["queue"]
    assert ("duration" in changed) <= ("time_limit_min" in edits)
    assert ("constraints" in changed) <= ("features" in edits)
    if not {"nodes", "tasks", "cpus_per_task", "gres"} & set(edits):
        assert after["resources"] == before["resources"]
    return True


@pytest.fixture(scope="module")
def plugin() -> Any:
    """A frobnicator whose daemon answers in the same process: no socket, for speed."""
    module = load_filter()
    made = module.Frobnicator(parser=None)
    made.configure(None, flux_config(deadline_ms=1000))
    return made


def answer_with(plugin: Any, edits: dict[str, Any]) -> None:
    reply = json.dumps({"v": 1, "action": "edit", "edits": edits, "stamp": "berth/1 id=x"})
    plugin._filter.client.exchange = lambda _line, _stop_s: reply.encode() + b"\n"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "mutations", [5_000, pytest.param(100_000, marks=pytest.mark.slow)], ids=str
)
def test_mutated_jobspecs_get_our_change_or_stay_as_they_were(plugin: Any, mutations: int) -> None:
    rng = random.Random(20261)  # noqa: S311 - the same jobspecs in every run
    texts = [json.dumps(seed) for seed in SEEDS]
    changed = 0
    for number in range(mutations):
        spec = json.loads(texts[number % len(texts)])
        mutate(spec, rng, PARTS)
        edits = EDITS[rng.randrange(len(EDITS))]
        answer_with(plugin, edits)
        before = canonical(spec)
        jobspec = Jobspec(spec)
        plugin.frob(jobspec, rng.choice((0, 1000, -1, None, "x")), 16, 0)
        assert canonical(spec) == before, "changed in place"
        if jobspec.jobspec is not spec:
            changed += check(spec, jobspec.jobspec, edits)
    assert 0.05 * mutations < changed < 0.9 * mutations


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.data())
def test_anything_anywhere_in_a_recorded_form(plugin: Any, data: st.DataObject) -> None:
    spec = copy.deepcopy(data.draw(st.sampled_from(SEEDS)))
    holder, key = data.draw(st.sampled_from(places(spec)))
    holder[key] = data.draw(JSON)
    edits = data.draw(st.sampled_from(EDITS))
    answer_with(plugin, edits)
    before = copy.deepcopy(spec)
    jobspec = Jobspec(spec)
    plugin.frob(jobspec, 1000, 16, 0)
    check(before, jobspec.jobspec, edits)


@settings(max_examples=examples(400), deadline=None)
@given(st.dictionaries(st.sampled_from(["queue", "gres", "nodes", "tasks", "x"]), JSON), JSON)
def test_any_edits_are_carried_out_whole_or_not_at_all(plugin: Any, edits: Any, more: Any) -> None:
    reply = {"v": 1, "action": "edit", "edits": edits, "stamp": more, "message": more}
    line = json.dumps(reply).encode() + b"\n"
    plugin._filter.client.exchange = lambda _line, _stop_s: line
    jobspec = Jobspec(asking())
    plugin.frob(jobspec, 1000, 16, 0)
    if canonical(jobspec.jobspec) != canonical(asking()) and edits:
        check(asking(), jobspec.jobspec, edits)


def test_a_jobspec_as_large_as_they_come_is_in_time(bench: FluxBench) -> None:
    spec = asking("batch")
    spec["attributes"]["system"]["environment"] = {f"V{i}": "x" * 100 for i in range(5000)}
    spec["attributes"]["system"]["files"]["script"]["data"] = "#!/bin/sh\n" + "x" * 1_000_000
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        assert bench.frob(spec)["attributes"]["system"]["queue"] == "gpu"


def test_nesting_without_end_passes_through(bench: FluxBench) -> None:
    spec = asking()
    deep: dict[str, Any] = {}
    spec["attributes"]["system"]["deep"] = deep
    for _ in range(100_000):
        deep["x"] = {}
        deep = deep["x"]
    jobspec = Jobspec(spec)
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")):
        bench.plugin.frob(jobspec, 1000, 16, 0)
    assert jobspec.jobspec is spec
