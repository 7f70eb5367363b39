"""Flux: one profile a node, as a property and a queue."""

from __future__ import annotations

import tomllib

import pytest

from berth.plugin.flux.mig import property_of, queues, resource_set
from berth.plugin.mig.errors import PlanRefused
from berth.policies.mig import Layout

SMALL = Layout.parse("1g.5gb@0 1g.5gb@1 1g.5gb@2")
LARGE = Layout.parse("3g.20gb@0 3g.20gb@4")


def test_each_node_has_its_slices_as_gpus_and_its_profile_as_property() -> None:
    r = resource_set({"n0": [SMALL, SMALL], "n1": [LARGE], "n2": [SMALL]}, cores=16)
    assert r["version"] == 1
    execution = r["execution"]
    assert [row["children"]["gpu"] for row in execution["R_lite"]] == ["0-5", "0-1", "0-2"]
    assert execution["nodelist"] == ["n0,n1,n2"]
    assert execution["properties"] == {"mig-1g.5gb": "0,2", "mig-3g.20gb": "1"}


def test_queues_require_the_property() -> None:
    made = tomllib.loads(queues(["1g.5gb", "1g.5gb+me"]))["queues"]
    assert made["mig-1g.5gb"]["requires"] == ["mig-1g.5gb"]
    assert property_of("1g.5gb+me") in made


@pytest.mark.parametrize("layouts", [[], [SMALL, LARGE]])
def test_what_a_flux_job_could_not_choose_is_refused(layouts: list[Layout]) -> None:
    with pytest.raises(PlanRefused, match="n0"):
        resource_set({"n0": layouts}, cores=4)
