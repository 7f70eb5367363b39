"""What changed jobs took against control jobs, where the truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stored import STORED_DECISION

from berth.plugin.cli.command_line import berth
from berth.plugin.outcomes.measured_gain import ComparedJob, MeasuredGain, gain_of, measured_gains
from berth.plugin.report.of_gain import gain_part
from berth.plugin.store import PlacedRun, Store
from berth.plugin.store.records import DecisionArm, RunSums


def jobs(
    ratio: float, *, users: int = 30, count: int = 3_000, failed: float = 0.0, seed: int = 1
) -> list[ComparedJob]:
    """Jobs of which one in 20 is a control job and takes ``ratio`` times as long."""
    draw = random.Random(seed)  # noqa: S311
    drawn = []
    for number in range(count):
        program, is_control = number % 17, draw.random() < 0.05
        seconds = 100.0 * (1 + program) * (ratio if is_control else 1.0)
        completed = is_control or draw.random() >= failed
        user = f"user{draw.randrange(users)}"
        seconds *= draw.lognormvariate(0.0, 0.3)
        drawn.append(
            ComparedJob((f"p{program}",), user, str(number), is_control, completed, seconds)
        )
    return drawn


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.25])
@pytest.mark.parametrize("users", [2, 30])
def test_the_interval_holds_the_truth(ratio: float, users: int) -> None:
    held = 0
    for seed in range(10):
        gain = gain_of(jobs(ratio, users=users, seed=seed))
        assert gain is not None
        assert gain.ratio_interval is not None
        assert gain.saved_interval is not None
        held += gain.ratio_interval[0] <= ratio <= gain.ratio_interval[1]
        assert gain.saved_interval[0] <= (gain.saved or 0.0) <= gain.saved_interval[1]
    assert held >= 8


def test_what_a_failed_job_took_is_a_loss() -> None:
    """A third of the changed jobs fail and take as long as the others."""
    gain = gain_of(jobs(1.0, failed=1 / 3))
    assert gain is not None
    assert gain.ratio == pytest.approx(2 / 3, rel=0.1)
    assert gain.is_clear
    assert (gain.saved or 0.0) < 0 < gain.failed


def test_programs_without_control_jobs_are_not_compared() -> None:
    alone = ComparedJob(("alone",), "eve", "a", is_control=False, completed=True, value=1e9)
    with_it, without = gain_of([*jobs(1.25), alone]), gain_of(jobs(1.25))
    assert with_it == without
    assert gain_of([alone]) is None
    assert gain_of([]) is None


def test_one_control_job_gives_no_interval() -> None:
    some = [ComparedJob(("p",), "u", str(n), n == 0, completed=True, value=10.0) for n in range(9)]
    gain = gain_of(some)
    assert gain is not None
    assert (gain.controls, gain.ratio, gain.ratio_interval) == (1, pytest.approx(1.0), None)
    assert gain.more_days is None
    assert "Too few jobs" in gain_part([gain], {}).lines[0]


def test_jobs_that_all_failed_or_took_no_time_give_no_figure() -> None:
    one = ComparedJob(("p",), "u", "d", is_control=True, completed=False, value=10.0)
    failed = gain_of([one, one, one._replace(is_control=False)])
    assert failed is not None
    assert (failed.ratio, failed.saved, failed.controls_failed) == (None, None, 2)
    done = one._replace(value=0.0, completed=True)
    instant = gain_of([done, done._replace(is_control=False)])
    assert instant is not None
    assert instant.ratio_interval is None


def ended(number: int, state: str, took_s: float, **fields: Any) -> PlacedRun:
    at_s = 1.7e9 + 3_000.0 * number
    record = PlacedRun(
        "lab", str(number), f"u{number % 9}", state, decision=f"d{number}", submit_s=at_s,
        end_s=at_s + took_s, elapsed_s=took_s / 2, workload="p", candidate="cpu",
    )  # fmt: skip
    return replace(record, **fields)


def test_the_command_measures_where_there_are_control_jobs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    store = Store.open(url)
    for number in range(400):
        control = number % 8 == 0
        store.outcomes.put([ended(number, "completed", 150.0 if control else 100.0)])
        store.decisions.add(
            [
                replace(
                    STORED_DECISION, id=f"d{number}", workload="p", time_s=1.7e9,
                    action="keep" if control else "edit", code="control" if control else "placed",
                )
            ]
        )  # fmt: skip
    done = CliRunner().invoke(berth, ["jobs", "gain", "--days", "20000", "--store", url])
    assert done.exit_code == 0, done.output
    assert "Berth's changes help: jobs left as written take 1.50 times as long" in done.output
    assert "350" in done.output


def test_energy_and_what_is_not_known() -> None:
    decisions = {
        "a": DecisionArm(0.0, "edit", "placed"),
        "b": DecisionArm(0.0, "keep", "control"),
    }
    one = RunSums("u", "completed", "a", 5.0, "p", None, None, None, None, None, None)
    assert measured_gains([one], decisions) == []
    two = [one._replace(energy_j=7.2e6), one._replace(decision="b", energy_j=3.6e6)]
    (energy,) = measured_gains(two, decisions)
    assert (energy.quantity, energy.ratio) == ("energy", pytest.approx(0.5))
    assert "Too few" in gain_part([energy], {}).lines[0]


def test_a_cancelled_job_did_not_complete() -> None:
    """Users cancel each second changed job while it waits: a completed one takes twice as long."""
    runs, arms = drawn_runs(share=0.3)
    cancelled = [
        run._replace(state="cancelled") if arms[run.decision or ""].arm == "changed" and n % 2
        else run for n, run in enumerate(runs)
    ]  # fmt: skip
    gain = measured_gains(cancelled, arms)[0]
    assert gain.ratio == pytest.approx(0.5, rel=0.15)
    assert gain.is_clear


def drawn_runs(
    *, share: float, count: int = 1_000, control: str = "written", version: str = "1",
    took_s: float = 100.0, first: int = 0,
) -> tuple[list[RunSums], dict[str, DecisionArm]]:  # fmt: skip
    """Jobs of nine users in one period, with the arm that was drawn for each."""
    draw, runs, arms = random.Random(1), [], {}  # noqa: S311
    for number in range(first, first + count):
        arm = control if draw.random() < share else "changed"
        code = "placed" if arm == "changed" else "control"
        name, at_s = f"d{number}", 900.0 * number
        arms[name] = DecisionArm(at_s, "edit", code, None, arm, control, share, version)
        end_s = at_s + took_s * draw.lognormvariate(0.0, 0.3)
        runs.append(
            RunSums(f"u{number % 9}", "completed", name, took_s, "p", None, None, None, None, None,
                    None, at_s, end_s)
        )  # fmt: skip
    return runs, arms


def test_jobs_are_compared_within_a_period_of_one_share() -> None:
    """Many control jobs in the month in which all jobs take ten times as long are no gain."""
    quiet, busy = drawn_runs(share=0.02), drawn_runs(share=0.3, took_s=1_000.0, first=1_000)
    gain = measured_gains([*quiet[0], *busy[0]], quiet[1] | busy[1])[0]
    assert gain.ratio == pytest.approx(1.0, abs=0.1)
    assert not gain.is_clear


def test_the_tasks_of_an_array_were_drawn_together() -> None:
    runs, arms = drawn_runs(share=0.3, count=60)
    alone, arrays = (measured_gains(runs * times, arms)[0] for times in (1, 50))
    assert arrays.jobs == 50 * alone.jobs
    assert arrays.ratio_interval == pytest.approx(alone.ratio_interval)


def test_the_list_is_a_control_arm_of_its_own() -> None:
    written = drawn_runs(share=0.3)
    against_list = drawn_runs(share=0.3, control="list", first=1_000)
    gains = measured_gains([*written[0], *against_list[0]], written[1] | against_list[1])
    counted = [(gain.control, gain.quantity, gain.jobs + gain.controls) for gain in gains]
    quantities = ("time", "wait", "run")
    assert counted == [(of, each, 1_000) for of in ("written", "list") for each in quantities]
    assert "jobs with the plain list of partitions take" in gain_part(gains, {}).lines[1]


def test_arms_of_the_wrong_size_give_no_verdict() -> None:
    runs, arms = drawn_runs(share=0.3)
    kept = [run for n, run in enumerate(runs) if arms[run.decision or ""].arm == "changed" or n % 2]
    gain = measured_gains(kept, arms)[0]
    assert gain.mismatch is not None
    part = gain_part([gain], {})
    assert part.lines[0].startswith("No verdict: ")
    assert "submissions are control jobs where" in part.lines[0]
    assert not part.tables


def test_a_verdict_says_how_many_days_are_missing() -> None:
    gain = gain_of(jobs(1.0, count=400))
    assert gain is not None
    unclear = replace(gain, days=2.0)
    assert unclear.more_days == pytest.approx(
        2.0 * ((_width(unclear) * 1.531 / 0.0953) ** 2 - 1), rel=0.01
    )
    assert "more days like these" in gain_part([unclear], {}).lines[0]
    harm = gain_of(jobs(0.6))
    assert harm is not None
    assert "changes harm" in gain_part([harm], {}).lines[0]


def _width(gain: MeasuredGain) -> float:
    assert gain.ratio_interval is not None
    low, high = gain.ratio_interval
    return math.log(high / low) / 2
