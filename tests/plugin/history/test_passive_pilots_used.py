"""A job that perf counted becomes a Profile, and the ratios that it tells better are used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_kind_ratios_used import SITE, Lab, jobs

from berth.pilot.profile import Profile
from berth.pilot.usage.at_job_end import LIST
from berth.pilot.usage.record import JOB_END, Usage
from berth.plugin.cli.command_line import berth
from berth.plugin.history.passive_pilots import SOURCE, are_wide, newest_profile, write_list
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.site.site import PassivePilots
from berth.plugin.workloads.filing import workload_in
from berth.predictor.families.history.workload import KindRatio

PER_SECOND = 2e9
"""Instructions of a core in a second."""


def counts(core_seconds: float, mispredicts: float = 1e-3) -> str:
    """What perf counts of a typical program that computes for so long; nothing of its stores."""
    instructions = PER_SECOND * core_seconds
    rates = {"instructions": 1.0, "cycles": 1.0, "branches": 0.15, "branch-misses": mispredicts,
             "L1-dcache-loads": 0.3, "L1-dcache-load-misses": 0.01}  # fmt: skip
    lines = [f"{rate * instructions:.0f},,{event}:u,1000,80.00,," for event, rate in rates.items()]
    lines.append("<not supported>,,L1-dcache-stores:u,0,100.00,,")
    lines.append(f"{1000 * core_seconds:.2f},msec,task-clock,1000,100.00,1.0,CPUs utilized")
    return "\n".join(lines)


def usage(job_id: str, elapsed_s: float, reporter: str = "", cores: int = 16) -> Usage:
    return Usage(
        "lab", job_id, JOB_END, node="n1", reporter=reporter, cpu_time_s=cores * elapsed_s,
        peak_bytes=10**9, counts=counts(cores * elapsed_s),
    )  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A site where one user's programs ran on one kind only, and nothing on the other, of which
    Berth knows the data sheet."""
    return Lab(tmp_path, jobs("ada", "old"), more="[policy]\nallow_prior = true\n")


def test_a_counted_job_gives_the_ratio_of_a_kind_where_nothing_ran(lab: Lab) -> None:
    assert "rome-7742" not in lab.forecast("ada").curves
    (job,) = [job for job in lab.store.past_jobs.of_users("ada") if job.job_id == "ada11"]
    lab.store.usages.put([usage("ada11", job.elapsed_s)])
    lab.refresh()
    forecast = lab.forecast("ada")
    ratio = forecast.ratio("rome-7742", 16, "quartz", 16)
    assert ratio is not None
    assert ratio.high / ratio.low < 3.5
    names = [record.name for record in lab.store.workloads() if "/counted-" in record.name]
    assert names == ["ada/counted-solve.sh"], "one for all ways in which its jobs are matched"
    record = lab.store.workload(names[0])
    assert record is not None
    profile = workload_in(lab.store, record).document
    assert isinstance(profile, Profile)
    assert (profile.platform, profile.runs_on.threads, profile.peak_memory_bytes) == (
        "quartz", 16, 10**9,
    )  # fmt: skip
    assert profile.counters["instructions"].source == SOURCE
    assert profile.counters["stores"].value is None
    assert profile.counters["stores"].note == "L1-dcache-stores: not supported"
    assert "multiplexed" in (profile.counters["branches"].note or "")
    assert profile.counters["fp64_ops"].value is None, "what was not counted is not told"


def test_a_prior_is_not_taken_unless_the_site_allows_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, jobs("ada", "old"))
    lab.store.usages.put([usage("ada11", 1440.0)])
    lab.refresh()
    assert any("/counted-" in record.name for record in lab.store.workloads())
    assert "rome-7742" not in lab.forecast("ada").curves


def test_what_another_user_says_of_a_job_is_not_taken(lab: Lab) -> None:
    lab.store.usages.put([usage("ada11", 900.0, reporter="mallory")])
    lab.refresh()
    assert "rome-7742" not in lab.forecast("ada").curves


@pytest.mark.parametrize(
    "change",
    [{"state": "failed"}, {"nodes": 2}, {"gpus": 1}, {"elapsed_s": 5.0}, {"job_id": "other"}],
)
def test_jobs_that_are_no_whole_counted_job_of_one_node_are_not_taken(
    change: dict[str, object],
) -> None:
    job = replace(next(iter(jobs("ada", "old"))), elapsed_s=900.0)
    counted = {("lab", job.job_id): [usage(job.job_id, 900.0)]}
    assert newest_profile("x", [PlacedJob(job, "quartz")], counted) is not None
    changed = PlacedJob(replace(job, **change), "quartz")  # type: ignore[arg-type]
    assert newest_profile("x", [changed], counted) is None


@pytest.mark.parametrize("text", ["rubbish", "1,,instructions:u,1", counts(1e9), ",,,,\n", "\0"])
def test_counts_that_cannot_be_are_left_out(text: str) -> None:
    job = replace(next(iter(jobs("ada", "old"))), elapsed_s=900.0)
    told = replace(usage(job.job_id, 900.0), counts=text)
    counted = {("lab", job.job_id): [told]}
    assert newest_profile("x", [PlacedJob(job, "quartz")], counted) is None


def test_a_ratio_is_wide_where_it_is_unknown_or_its_interval_is() -> None:
    ratio = KindRatio(platform="b", than="a", low=1.0, mid=1.2, high=1.4, programs=3)
    assert not are_wide([ratio], ["a", "b"], "a")
    assert are_wide([ratio], ["a", "b", "c"], "a")
    assert are_wide([ratio.model_copy(update={"high": 1.6})], ["a", "b"], "a")


def test_refresh_writes_the_list_that_nodes_read_and_takes_it_back(tmp_path: Path) -> None:
    lab = Lab(tmp_path, jobs("ada", "old"))
    spool = tmp_path / "spool"
    spool.mkdir()
    site_file = tmp_path / "berth.toml"
    table = f'[passive_pilots]\none_in = 20\nspool = "{spool}"\n'
    site_file.write_text(SITE.format(folder=tmp_path) + table)
    words = ["jobs", "history", "refresh", "--json", "--site", str(site_file)]
    done = CliRunner().invoke(berth, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["workloads"] > 0
    assert (spool / LIST).read_text() == "one in 20\nada\n"
    assert (spool / LIST).stat().st_mode & 0o777 == 0o644
    site_file.write_text(SITE.format(folder=tmp_path) + table.replace("20", "0"))
    assert CliRunner().invoke(berth, words).exit_code == 0
    assert not (spool / LIST).exists()
    site_file.write_text(SITE.format(folder=tmp_path) + table.replace("/spool", "/none"))
    done = CliRunner().invoke(berth, words)
    assert done.exit_code != 0
    assert "perf-list: cannot be written" in str(done.exception)
    lab.store.close()


def test_a_site_that_never_counted_needs_no_spool(tmp_path: Path) -> None:
    write_list(PassivePilots(one_in=0, spool=tmp_path / "none"), ["ada"])
