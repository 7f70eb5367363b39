"""Jobs of unknown programs: the daemon answers with the list of partitions where they fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from berth_daemon import forecast
from views import decide, knowing_service, site_of

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.daemon.record import Answered, record_of
from berth.plugin.daemon.service import Service
from berth.policies.values import Mode
from berth.predictor.core.prediction import Basis


def fitting_service(mode: str = "enforce", fit: str = "") -> tuple[Service, list[Answered]]:
    """A service that knows ``stream`` and places other jobs by fit."""
    return knowing_service(site=site_of(mode, fit=fit))


UNKNOWN: dict[str, Any] = {"comment": "", "tasks": 4}


def test_an_unknown_job_gets_the_partitions_where_it_fits_and_keeps_all_else() -> None:
    service, recorded = fitting_service()
    reply = decide(service, **UNKNOWN)
    assert (reply["action"], reply["code"]) == ("edit", "fits-one")
    assert reply["edits"] == {"queue": "cpu"}
    stamp = parse_stamp(reply["stamp"])
    assert stamp is not None
    assert (stamp["to"], stamp["code"]) == ("cpu", "fits-one")
    assert "not known yet" in reply["message"]
    assert decide(service, **UNKNOWN, gres="gpu:1")["edits"] == {"queue": "gpu"}
    assert recorded[-1].decision is not None


def test_so_does_a_job_that_names_an_unknown_workload_or_one_that_is_not_predicted() -> None:
    service, _ = fitting_service()
    assert decide(service, comment="berth:unheard-of", tasks=4)["code"] == "fits-one"
    prior, _ = knowing_service(forecast("stream", basis=Basis.PRIOR), site=site_of(fit=""))
    assert decide(prior)["code"] == "fits-one"


def test_where_the_job_fits_nowhere_the_reason_is_that_nothing_is_known() -> None:
    service, _ = fitting_service()
    assert decide(service, **UNKNOWN, gres="gpu:h100:1")["code"] == "no-workload"
    assert decide(service, comment="berth:unheard-of", memory_mib_per_node=10**6)["code"] == (
        "no-workload"
    )


@pytest.mark.parametrize(
    ("site", "fit", "action", "recorded_mode"),
    [
        ("enforce", "shadow", "keep", Mode.SHADOW),
        ("enforce", "advise", "keep", Mode.ADVISE),
        ("shadow", "enforce", "keep", Mode.SHADOW),
        ("enforce", "enforce", "edit", Mode.ENFORCE),
    ],
)
def test_its_mode_is_the_weaker_of_the_two(
    site: str, fit: str, action: str, recorded_mode: Mode
) -> None:
    service, recorded = fitting_service(site, f'mode = "{fit}"')
    assert decide(service, **UNKNOWN)["action"] == action
    assert recorded[-1].mode is recorded_mode
    assert recorded[-1].changes == {"queue": "cpu"}
    if site == "enforce":
        assert decide(service)["action"] == "edit"  # stream is known


def test_jobs_that_name_no_partition_are_placed_by_fit_only_where_the_site_says_so() -> None:
    service, _ = fitting_service()
    assert decide(service, **UNKNOWN, queue="")["code"] == "no-workload"
    everybody, _ = fitting_service(fit="unnamed_partition = true")
    assert decide(everybody, **UNKNOWN, queue="")["edits"] == {"queue": "cpu"}
    assert decide(everybody, **UNKNOWN, queue="gpu")["code"] == "own-queue"


def test_jobs_for_the_auto_partition_are_covered_where_those_that_name_none_are_not() -> None:
    site = site_of(fit="", coverage="unnamed_partition = false")
    service, _ = knowing_service(site=site)
    assert decide(service, **UNKNOWN)["edits"] == {"queue": "cpu"}
    assert decide(service, **UNKNOWN, queue="")["code"] == "not-covered-queue"


@pytest.mark.parametrize(
    "job", [{"comment": "berth:off"}, {"mode": "off"}, {"reservation": "mine"}, {"het": 1},
            {"pinned": ["nodelist"]}]
)  # fmt: skip
def test_jobs_that_are_to_be_left_alone_are_left_alone(job: dict[str, Any]) -> None:
    service, _ = fitting_service()
    assert decide(service, **{**UNKNOWN, **job})["action"] == "keep"


def test_the_record_says_which_places_fit_and_why_others_do_not() -> None:
    service, recorded = fitting_service()
    decide(service, **UNKNOWN)
    row = record_of(recorded[-1], "host")
    by_name = {place["candidate"]: place for place in json.loads(row.ranked)}
    assert (row.chosen, row.code) == ("cpu", "fits-one")
    assert by_name["cpu"]["excluded"] is None
    assert by_name["gpu"]["code"] == "other-gres"
