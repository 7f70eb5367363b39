"""Predicted against real times, as an administrator sees them."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from stored import STORED_DECISION

from berth.plugin.cli.jobs.decisions import decisions
from berth.plugin.cli.jobs.outcomes import outcomes
from berth.plugin.cli.site.store import store as store_group
from berth.plugin.outcomes.accuracy import FEWEST, GROUPS, summarise
from berth.plugin.store import PlacedRun, Store

RAN = PlacedRun(
    cluster="lab",
    job_id="1",
    user="alice",
    state="completed",
    decision="1m7y4whj8kbbvxmm",
    partition="gpu",
    end_s=1000.0,
    elapsed_s=66.0,
    workload="stream",
    bundle="bundle-1",
    candidate="gpu",
    platform="h200",
    predicted_low_s=50.0,
    predicted_s=60.0,
    predicted_high_s=72.0,
)


def many(*elapsed_s: float, **changes: object) -> list[PlacedRun]:
    return [
        replace(RAN, job_id=f"{s}-{n}", elapsed_s=s, **changes)  # type: ignore[arg-type]
        for n, s in enumerate(elapsed_s)
    ]


def test_errors_bias_and_coverage_are_those_of_the_completed_jobs() -> None:
    found = [
        *many(54, 66, 90),
        *many(1.0, state="failed"),
        *many(72.0, state="timeout"),
        *many(600.0, predicted_s=None, predicted_low_s=None, predicted_high_s=None),
    ]
    (row,) = summarise(found, "platform")
    assert (row.jobs, row.compared, row.timeouts) == (6, 3, 1)
    assert row.median_error == pytest.approx(0.1)
    assert row.p90_error == pytest.approx(0.5)
    assert row.bias == pytest.approx(1.1)
    assert row.coverage == pytest.approx(2 / 3)
    # Wilson, 2 of 3: R's prop.test(2, 3, correct = FALSE).
    assert (row.coverage_low, row.coverage_high) == (
        pytest.approx(0.2077, abs=1e-4),
        pytest.approx(0.9385, abs=1e-4),
    )


@pytest.mark.parametrize(
    ("inside", "outside", "verdict"),
    [
        (FEWEST - 1, 0, "too few to tell (20 needed)"),
        (FEWEST, 0, "holds"),
        (90, 10, "holds"),
        (80, 20, "intervals too narrow"),
        (100, 0, "holds, intervals wide"),
    ],
)
def test_the_verdict_says_what_so_many_jobs_can_tell(
    inside: int, outside: int, verdict: str
) -> None:
    (row,) = summarise(many(*[60] * inside, *[100] * outside), "platform")
    assert row.verdict == verdict


def test_a_time_limit_does_not_hide_the_jobs_that_ran_too_long() -> None:
    """The filter raises limits to the interval's upper end: what runs longer never completes."""
    (row,) = summarise([*many(*[60] * 20), *many(*[73] * 20, state="timeout")], "platform")
    assert (row.compared, row.timeouts, row.overruns, row.coverage) == (20, 20, 20, 0.5)
    assert row.verdict == "intervals too narrow"
    (none,) = summarise(many(*[73] * 20, state="timeout"), "platform")
    assert (none.coverage, none.median_error, none.verdict) == (0.0, None, "intervals too narrow")


def test_groups_come_with_the_largest_first_and_all_last() -> None:
    found = many(60, 60) + many(60, 60, 60, platform="rome") + many(60, platform=None)
    found[-1] = replace(found[-1], predicted_s=None)
    rows = summarise(found, "platform")
    assert [(r.name, r.compared) for r in rows] == [
        ("rome", 3),
        ("h200", 2),
        ("(no prediction)", 0),
        ("all", 5),
    ]
    assert rows[2].median_error is rows[2].coverage is rows[2].bias is None
    assert summarise([], "platform") == []


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    store = Store.open(tmp_path / "store.db")
    now_s = time.time()
    store.outcomes.put(
        [
            replace(RAN, end_s=now_s - 60),
            replace(RAN, job_id="2", elapsed_s=90.0, end_s=now_s - 50),
            replace(RAN, job_id="3", elapsed_s=9.0, end_s=now_s - 40 * 86_400, platform="old"),
        ]
    )
    store.decisions.add([DECISION, replace(DECISION, id="alone")])
    store.close()
    return str(tmp_path / "store.db")


ROW = {"candidate": "gpu", "platform": "h200", "runtime_s": [50, 60, 72], "score": 1}
DECISION = replace(
    STORED_DECISION,
    time_s=1000.0,
    request=json.dumps(
        {
            "tasks": 1,
            "cpus_per_task": 1,
            "nodes": 0,
            "gpus": 0,
            "memory_bytes_per_node": None,
            "time_limit_s": None,
        }
    ),
    edits="{}",
    ranked=json.dumps([ROW]),
)


def test_the_summary_is_a_table(store_url: str) -> None:
    done = CliRunner().invoke(outcomes, ["--store", store_url])
    header, row = done.output.splitlines()
    assert header.split()[0] == "PLATFORM"
    assert row.startswith("h200")
    assert "30%" in row  # the median of 10 % and 50 %
    assert "too few to tell" in row
    both = CliRunner().invoke(outcomes, ["--store", store_url, "--days", "60", "--by", "bundle"])
    assert "bundle-1  3" in both.output
    none = CliRunner().invoke(outcomes, ["--store", store_url, "--days", "0.0001"])
    assert "no job that was decided upon has ended" in none.output


def test_the_summary_and_the_jobs_come_as_json(store_url: str) -> None:
    (row,) = json.loads(CliRunner().invoke(outcomes, ["--store", store_url, "--json"]).output)
    assert (row["name"], row["compared"], row["coverage"]) == ("h200", 2, 0.5)
    assert row["verdict"] == "too few to tell (20 needed)"
    done = CliRunner().invoke(outcomes, ["--store", store_url, "--jobs", "--json"])
    assert [job["job_id"] for job in json.loads(done.output)] == ["1", "2"]


def test_of_many_jobs_the_newest_are_summed_up_and_a_sentence_says_so(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--store", store_url, "--days", "60"]
    every = CliRunner().invoke(outcomes, words).output
    assert "looked at" not in every
    monkeypatch.setattr("berth.plugin.outcomes.accuracy.MOST", 2)
    text = CliRunner().invoke(outcomes, words).output
    assert "of 3 jobs the newest 2 are looked at" in text
    monkeypatch.setattr("berth.plugin.outcomes.accuracy.MOST_COUNTED", 3)
    text = CliRunner().invoke(outcomes, words).output
    assert "of 3 or more jobs the newest 2 are looked at" in text
    assert "old" not in text
    (row,) = json.loads(CliRunner().invoke(outcomes, [*words, "--json"]).stdout)
    assert (row["name"], row["jobs"]) == ("h200", 2)
    listed = CliRunner().invoke(outcomes, [*words, "--jobs", "--json"]).stdout
    assert len(json.loads(listed)) == 3


def test_the_newest_jobs_are_listed_and_how_many_there_are(store_url: str) -> None:
    words = ["--store", store_url, "--days", "60", "--jobs", "--json"]
    every = [job["job_id"] for job in json.loads(CliRunner().invoke(outcomes, words).stdout)]
    two = CliRunner().invoke(outcomes, [*words, "--last", "2"])
    assert [job["job_id"] for job in json.loads(two.stdout)] == every[-2:]
    assert "of 3 jobs the newest 2 are shown: --last" in two.stderr
    assert CliRunner().invoke(outcomes, [*words, "--last", "3"]).stderr == ""


@pytest.mark.parametrize("by", GROUPS)
def test_sums_are_those_of_whole_records(store_url: str, by: str) -> None:
    with closing(Store.reading(store_url)) as store:
        whole = list(store.outcomes.between(0.0, time.time()))
        assert summarise(store.outcomes.newest(0.0, time.time(), 9), by) == summarise(whole, by)
    assert len(whole) == 3


def test_jobs_are_listed_with_what_was_predicted(store_url: str) -> None:
    text = CliRunner().invoke(outcomes, ["--store", store_url, "--jobs"]).output
    assert "60 s (50 s to 72 s)  66 s  +10%" in text
    assert "90 s  +50% outside" in text


def test_decisions_show_predicted_against_real_time(store_url: str) -> None:
    text = CliRunner().invoke(decisions, ["--store", store_url]).output
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert "PREDICTED  RAN" in lines["ID"]
    assert "60 s       66 s (3 of 3)" in lines["1m7y4whj8kbbvxmm"]  # an array: the median
    assert "60 s       -" in lines["alone"]
    text = CliRunner().invoke(decisions, ["--store", store_url, DECISION.id]).output
    assert (
        "outcome  job 1: completed after 66 s in gpu, predicted 60 s (50 s to 72 s): +10%" in text
    )


def test_outcomes_are_pruned_only_when_asked(store_url: str) -> None:
    words = ["prune", "--older-than-days", "30", "--store", store_url]
    assert "2 decisions deleted" in CliRunner().invoke(store_group, words).output
    done = CliRunner().invoke(store_group, [*words, "--outcomes"])
    assert "0 decisions and 1 outcomes deleted" in done.output
