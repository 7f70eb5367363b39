"""Flux: one profile a node, as a property and a queue."""

from __future__ import annotations

import tomllib

import pytest

from berth.plugin.flux.mig import configuration, property_of
from berth.plugin.mig.errors import PlanRefused
from berth.policies.mig import Layout

SMALL = Layout.parse("1g.5gb@0 1g.5gb@1 1g.5gb@2")
LARGE = Layout.parse("3g.20gb@0 3g.20gb@4")


def test_each_node_has_its_slices_as_gpus_and_its_profile_as_property_and_queue() -> None:
    made = tomllib.loads(
        configuration({"n0": [SMALL, SMALL], "n1": [LARGE], "n2": [SMALL], "n3": [LARGE]}, 16)
    )
    assert made["queues"] == {
        "mig-1g.5gb": {"requires": ["mig-1g.5gb"]},
        "mig-3g.20gb": {"requires": ["mig-3g.20gb"]},
    }
    assert [(n["hosts"], n["gpus"], n["properties"]) for n in made["resource"]["config"]] == [
        ("n0", "0-5", ["mig-1g.5gb"]),
        ("n1,n3", "0-1", ["mig-3g.20gb"]),
        ("n2", "0-2", ["mig-1g.5gb"]),
    ]
    assert {n["cores"] for n in made["resource"]["config"]} == {"0-15"}


def test_characters_that_a_property_may_not_have_are_replaced() -> None:
    assert property_of("1g.5gb+me") == "mig-1g.5gb-me"


@pytest.mark.parametrize("layouts", [[], [SMALL, LARGE]])
def test_what_a_flux_job_could_not_choose_is_refused(layouts: list[Layout]) -> None:
    with pytest.raises(PlanRefused, match="n0"):
        configuration({"n0": layouts}, cores=4)
