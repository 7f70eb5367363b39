"""What would change now: one sentence, the same in every view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from views import site_of

from berth.plugin.doctor.examine import examine
from berth.plugin.report.of_installation import daemon_part
from berth.plugin.site.changes_now import changes_now

ANSWER: dict[str, Any] = {"mode": "enforce", "forecasts": 2, "breakers": {}}
FIT = 'mode = "enforce"'


@pytest.mark.parametrize(
    ("mode", "fit", "stats", "made", "says"),
    [
        (
            "enforce",
            FIT,
            ANSWER,
            True,
            "(mode enforce): 2 programs with a forecast",
        ),
        (
            "enforce",
            FIT,
            ANSWER | {"forecasts": 0},
            True,
            "by the list of partitions where they fit",
        ),
        ("enforce", 'mode = "off"', ANSWER | {"forecasts": 0}, False, "nothing is predicted"),
        ("shadow", FIT, ANSWER | {"mode": "shadow"}, False, "No job is changed (mode shadow)"),
        ("enforce", FIT, ANSWER | {"mode": "shadow"}, False, "No job is changed (mode shadow)"),
        ("advise", FIT, ANSWER | {"mode": "advise"}, False, "users are told"),
        ("off", FIT, None, False, "Berth is off"),
        ("enforce", FIT, None, False, "Berth does not run here"),
    ],
)
def test_the_sentence_follows_mode_fit_and_forecasts(
    mode: str, fit: str, stats: dict[str, Any] | None, made: bool, says: str
) -> None:
    now = changes_now(site_of(mode, fit=fit), stats)
    assert now.are_made is made
    assert says in now.sentence


def test_coverage_and_the_breaker_are_said() -> None:
    site = site_of(coverage='partitions = { include = ["cpu"] }\n')
    breakers = {"slurm": {"undecided": 7, "openings": 1}}
    sentence = changes_now(site, ANSWER | {"breakers": breakers}).sentence
    assert "[coverage] leaves out some: partitions" in sentence
    assert "7 submissions went on unchanged" in sentence


def test_the_kill_switch_stops_all_and_doctor_says_the_same_sentence(tmp_path: Path) -> None:
    site = site_of(fit=FIT, folder=str(tmp_path))
    site.daemon.kill_switch.touch()
    now = changes_now(site, ANSWER)
    assert (now.are_made, "no job is changed" in now.sentence) == (False, True)
    (finding,) = [found for found in examine(site) if found.check == "changes"]
    assert (finding.text, finding.advice) == (now.sentence, now.advice)
    site.daemon.kill_switch.unlink()
    assert changes_now(site, ANSWER).are_made, "the advice was carried out"


def test_the_daemons_status_begins_with_it() -> None:
    site = site_of(fit=FIT)
    stats = ANSWER | {
        "latency_us": {"p50": None}, "state_age_s": None, "version": "1", "uptime_s": 1.0,
        "counts": {}, "codes": {}, "candidates": 1, "workloads": 0, "recorder": {}, "problems": {},
    }  # fmt: skip
    assert daemon_part(site, stats).lines == [changes_now(site, stats).sentence]
