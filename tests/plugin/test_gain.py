"""What placements saved: honest where programs are few, predictions off and jobs failed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.plugin.cli.command_line import berth
from berth.plugin.outcomes.gain import Gain, gains
from berth.plugin.store import DecisionRecord, PlacedRun, Store

AGAINST = ("cpu",)


class Site:
    """Jobs of programs whose times on both places are known."""

    def __init__(self) -> None:
        self.outcomes: list[PlacedRun] = []
        self.decisions: dict[str, DecisionRecord] = {}

    def job(
        self,
        program: str,
        real_s: float,
        predicted_s: dict[str, float],
        *,
        ran: str = "gpu",
        chosen: str = "gpu",
        action: str = "edit",
        state: str = "completed",
        ranked: str | None = None,
    ) -> None:
        name = f"d{len(self.outcomes)}"
        rows = [
            {"candidate": place, "runtime_s": [0.8 * s, s, 1.25 * s]}
            for place, s in predicted_s.items()
        ]
        self.decisions[name] = DecisionRecord(
            name, 1.0, "host", "slurm", "alice", None, "auto", program, "enforce", action,
            "placed", "because", chosen, "b", "fastest", "", 1,
            ranked=json.dumps(rows) if ranked is None else ranked,
        )  # fmt: skip
        here = predicted_s.get(ran)
        self.outcomes.append(
            PlacedRun(
                "lab", str(len(self.outcomes)), "alice", state, decision=name,
                end_s=time.time() - 60, elapsed_s=real_s, workload=program, candidate=ran,
                predicted_low_s=None if here is None else 0.8 * here, predicted_s=here,
                predicted_high_s=None if here is None else 1.25 * here,
            )
        )  # fmt: skip

    def gains(self) -> dict[str, Gain]:
        return {one.group: one for one in gains(self.outcomes, self.decisions, AGAINST).groups}


@pytest.fixture
def site() -> Site:
    return Site()


def test_time_saved_is_the_other_places_less_the_measured(site: Site) -> None:
    for n in range(5):
        for _ in range(1 + 3 * n):
            site.job(f"p{n}", 10.0, {"gpu": 10.0, "cpu": 40.0})
    found = site.gains()["placed"]
    jobs = sum(1 + 3 * n for n in range(5))
    assert (found.jobs, found.programs) == (jobs, 5)
    assert found.saved_s == pytest.approx(30.0 * jobs, rel=0.05)
    assert found.speedup == pytest.approx(4.0, rel=0.05)
    assert found.saved_interval_s is not None
    assert found.saved_interval_s[0] < found.saved_s < found.saved_interval_s[1]
    assert found.speedup_interval is not None
    low, high = found.speedup_interval
    assert low == 1.0, "only control jobs measure a gain"
    assert 4.0 < high < 5.0
    assert site.gains() == site.gains(), "the same jobs give the same intervals"


def test_programs_weigh_the_same_and_few_give_no_interval(site: Site) -> None:
    for _ in range(50):
        site.job("many", 10.0, {"gpu": 10.0, "cpu": 80.0})
    site.job("once", 10.0, {"gpu": 10.0, "cpu": 20.0})
    found = site.gains()["placed"]
    assert found.speedup == pytest.approx(4.0, rel=0.05)
    assert found.saved_interval_s is None
    assert found.speedup_interval is None


def test_predictions_are_corrected_by_what_ran_there(site: Site) -> None:
    """Everything takes half of what is predicted for the CPU."""
    for n in range(6):
        site.job(f"p{n}", 10.0, {"gpu": 10.0, "cpu": 40.0})
        site.job(f"q{n}", 20.0, {"gpu": 30.0, "cpu": 40.0}, ran="cpu", chosen="cpu")
    found = site.gains()["placed"]
    assert found.corrections["cpu"] == pytest.approx(0.5)
    assert found.speedup == pytest.approx(2.0, rel=0.05)


def test_jobs_that_stayed_say_what_moving_them_would_have_meant(site: Site) -> None:
    for n in range(3):
        site.job(f"p{n}", 40.0, {"gpu": 10.0, "cpu": 40.0}, ran="cpu", action="keep")
        site.job(f"p{n}", 10.0, {"gpu": 10.0, "cpu": 40.0}, action="keep")  # it was there
    found = site.gains()
    assert list(found) == ["kept"]
    assert (found["kept"].jobs, found["kept"].saved_s) == (3, pytest.approx(-90.0, rel=0.05))
    assert found["kept"].speedup == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize(
    "ranked",
    ["", "{}", "[1]", '[{"candidate": "cpu"}]', '[{"candidate": "cpu", "runtime_s": [3, "x"]}]'],
)
def test_what_cannot_be_compared_is_counted(site: Site, ranked: str) -> None:
    site.job("p", 10.0, {"gpu": 10.0}, ranked=ranked)
    site.job("p", 5.0, {"gpu": 10.0, "cpu": 40.0}, state="out-of-memory")
    found = gains(site.outcomes, site.decisions, AGAINST)
    assert (found.groups, found.ended, found.not_completed, found.not_comparable) == ((), 2, 1, 1)


def test_the_command(site: Site, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(berth, ["jobs", "gain", *words, "--store", url])
        return done.output if done.exit_code == 0 else str(getattr(done.exception, "message", ""))

    url = f"sqlite:///{tmp_path}/s.db"
    store = Store.open(url)
    assert "no job has both" in run("--against", "cpu")
    for n in range(4):
        site.job(f"p{n}", 3600.0, {"gpu": 3600.0, "cpu": 14_400.0})
    site.job("p1", 5.0, {"gpu": 10.0, "cpu": 40.0}, state="timeout")
    store.decisions.add(list(site.decisions.values()))
    store.outcomes.put(site.outcomes)
    said = run("--against", "cpu")
    assert "placed by Berth" in said
    assert "3.9" in said
    assert "1 placed jobs did not complete" in said
    assert "control = 0.05 in [policy]" in said
    assert json.loads(run("--against", "cpu", "--json"))["estimated"]["groups"][0]["jobs"] == 4
    assert "no place to compare with" in run()
