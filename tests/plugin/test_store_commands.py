"""``berth workload``, ``store``, ``decisions``, ``doctor``: what they print, bad input."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import toy_profiles
from berth_daemon import Harbour, fake_slurm, forecast, wait_until
from click.testing import CliRunner, Result
from made_forecasts import put

from berth.pilot.documents import to_json
from berth.plugin.cli import main
from berth.plugin.cli.command_line import berth
from berth.plugin.cli.pilot.deliver import fastest
from berth.plugin.doctor.examine import examine
from berth.plugin.findings import Status
from berth.plugin.report.of_decision import DecidedJob, decision_data
from berth.plugin.site import load_site
from berth.plugin.store import PlacedRun, Store
from berth.plugin.store.tables import REVISIONS

Run = Callable[..., Result]


@pytest.fixture
def run(site: Harbour, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command of berth on the test's site, in this process."""
    monkeypatch.setenv("BERTH_SITE", str(site.site_file))

    def invoke(*words: str | Path) -> Result:
        return CliRunner().invoke(berth, [str(word) for word in words])

    return invoke


@dataclass
class Said:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def shell(site: Harbour, *words: str | Path) -> Said:
    """A command as the shell sees it: exit status and messages."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("BERTH_SITE", str(site.site_file))
        try:
            main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
    return Said(code if isinstance(code, int) else 1, out.getvalue(), err.getvalue())


@pytest.fixture
def triad(tmp_path: Path) -> Path:
    """A profile file."""
    path = tmp_path / "triad.json"
    path.write_text(to_json(toy_profiles.profile("triad")))
    return path


def test_a_profile_is_added_with_its_forecast_and_its_script(
    site: Harbour, run: Run, triad: Path, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nsrun ./triad\n")
    done = run("workload", "add", triad, "--script", script, "--argument", "big", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["workload"] == "triad"
    assert {"rome-7742", "a100-80gb"} <= set(told["platforms"])
    store = site.store()
    assert store.fingerprints("triad")[0].digest == told["fingerprint"]
    assert [f.bundle for f in store.forecasts("triad")] == [told["bundle"]]
    listed = json.loads(run("workload", "list", "--json").stdout)
    assert [row["name"] for row in listed] == ["triad"]
    assert "triad" in run("workload", "list").stdout
    assert told["fingerprint"] in run("workload", "show", "triad").stdout
    shown = json.loads(run("workload", "show", "triad", "--json").stdout)
    assert shown["document"]["name"] == "triad"
    assert shown["forecast"]["predictions"][0]["sources"][0]["weight"] == 1
    assert json.loads(run("workload", "list", "--json").stdout) == listed


def test_a_daemon_places_by_what_was_added(
    site: Harbour, run: Run, triad: Path, tmp_path: Path
) -> None:
    text = "#!/bin/bash\nsrun ./triad\n"
    (tmp_path / "job.sh").write_text(text)
    daemon = site.start()
    assert run("workload", "add", triad, "--script", tmp_path / "job.sh").exit_code == 0
    reply: dict[str, Any] = wait_until(
        lambda: (r := daemon.decide(queue="auto", script=text))["code"] != "no-workload" and r
    )
    wait_until(lambda: site.store().decisions.get(reply["decision"]))
    explained = run("jobs", "decisions", reply["decision"]).stdout
    assert "workload triad" in explained
    assert "rome-7742" in explained
    assert "a100-80gb" in explained
    assert "FROM" in explained
    ranked = json.loads(run("jobs", "decisions", reply["decision"], "--json").stdout)["ranked"]
    assert all(row["source"] == "program" for row in ranked if row.get("runtime_s"))


def test_a_different_profile_of_that_name_needs_to_be_asked_for(
    site: Harbour, run: Run, triad: Path
) -> None:
    assert run("workload", "add", triad).exit_code == 0
    assert run("workload", "add", triad).exit_code == 0
    triad.write_text(to_json(toy_profiles.profile("triad", flops=9e9)))
    refused = shell(site, "workload", "add", triad)
    assert refused.returncode == 2
    assert "--replace" in refused.stderr
    assert run("workload", "add", triad, "--replace").exit_code == 0
    assert run("workload", "add", triad, "--name", "other").exit_code == 0
    assert [r.name for r in site.store().workloads()] == ["other", "triad"]


@pytest.mark.parametrize(
    "words",
    [
        ("workload", "add", "/nonexistent.json"),
        ("workload", "add", "TRIAD", "--script", "/nonexistent.sh"),
        ("workload", "add", "TRIAD", "--size", "-1"),
        ("workload", "add", "TRIAD", "--name", "a b"),
        ("workload", "show", "absent"),
        ("workload", "remove", "absent"),
        ("workload", "refresh", "absent"),
        ("jobs", "decisions", "absent"),
        ("jobs", "decisions", "x;y"),
        ("jobs", "decisions", "--last", "0"),
        ("site", "store", "prune"),
        ("site", "store", "upgrade", "--store", "mysql://x/y"),
        ("serve", "--site", "/nonexistent.toml"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(
    site: Harbour, triad: Path, words: tuple[str, ...]
) -> None:
    done = shell(site, *(str(triad) if word == "TRIAD" else word for word in words))
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert "workloads" not in done.stdout


def test_without_any_site_the_commands_say_what_to_give(
    triad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTH_SITE", raising=False)
    monkeypatch.setattr("berth.plugin.site_file.SITE_FILE", Path("/nonexistent"))
    done = CliRunner().invoke(berth, ["workload", "list"])
    assert done.exit_code != 0
    assert "neither a site file nor a store" in str(done.exception)


def test_removed_profiles_are_gone_and_refreshed_ones_are_predicted_again(
    site: Harbour, run: Run, triad: Path
) -> None:
    run("workload", "add", triad)
    run("workload", "add", triad, "--name", "second")
    before = site.store().revision()
    assert "2 workloads" in run("workload", "refresh").stdout
    assert site.store().revision() == before + 2
    assert run("workload", "remove", "triad", "second").exit_code == 0
    assert "no workloads yet" in run("workload", "list").stdout


def test_a_workload_is_found_by_its_short_name(
    site: Harbour, run: Run, triad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    for name in ("alice/triad", "bob/triad", "bob/melt", "carol/two", "dan/two"):
        assert run("workload", "add", triad, "--name", name).exit_code == 0
    assert run("workload", "show", "triad").stdout.startswith("alice/triad: ")
    assert run("workload", "show", "melt").stdout.startswith("bob/melt: ")  # the only one
    assert run("workload", "show", "bob/triad").stdout.startswith("bob/triad: ")
    several = shell(site, "workload", "show", "two")
    assert several.returncode == 2
    assert "carol/two, dan/two" in several.stderr
    assert shell(site, "workload", "show", "none").returncode == 2
    assert "1 workloads" in run("workload", "refresh", "melt").stdout
    assert run("workload", "add", triad).exit_code == 0  # shared by all
    assert run("workload", "show", "triad").stdout.startswith("alice/triad: ")
    monkeypatch.setenv("LOGNAME", "erin")
    assert run("workload", "show", "triad").stdout.startswith("triad: ")
    assert "removed triad" in run("workload", "remove", "triad").stdout


def test_nobody_elses_workload_is_removed_by_half_of_its_name(
    site: Harbour, run: Run, triad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    run("workload", "add", triad, "--name", "bob/melt")
    refused = shell(site, "workload", "remove", "melt")
    assert refused.returncode == 2
    assert "name it in full: bob/melt" in refused.stderr
    assert "removed bob/melt" in run("workload", "remove", "bob/melt").stdout


def test_the_platforms_where_a_program_can_run_come_first(run: Run, triad: Path) -> None:
    run("workload", "add", triad)
    lines = run("workload", "show", "triad").stdout.splitlines()
    assert "  runs on cpu (x86_64)" in lines
    first = lines[next(i for i, line in enumerate(lines) if "PLATFORM" in line) + 1]
    assert "core" in first
    assert "GPU" not in first
    assert not any("no code for it" in line for line in lines)  # not among the first few


def test_the_fastest_platform_that_a_pilot_names_is_one_of_the_site(site: Harbour) -> None:
    here = load_site(site.site_file)
    without_gpus = replace(here, platforms={"rome-7742": here.platforms["rome-7742"]})
    assert "fastest on a100-80gb " in fastest(forecast("stream"), here)
    assert "fastest on rome-7742 " in fastest(forecast("stream"), without_gpus)


def test_the_store_is_made_and_upgraded_by_a_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    assert f"(none) -> {REVISIONS[-1]}" in run("site", "store", "upgrade", "--store", path).stdout
    assert "nothing to do" in run("site", "store", "upgrade", "--store", path).stdout


def test_decisions_are_listed_found_by_job_and_pruned(
    site: Harbour, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.store()
    put(store, forecast("stream"))
    daemon = site.start()
    first = daemon.decide(queue="auto", comment="berth:stream", time_limit_min=60)
    second = daemon.decide(user="bob", queue="auto", comment="berth:nothing")
    wait_until(lambda: store.decisions.count() == 2)
    listed = json.loads(run("jobs", "decisions", "--json").stdout)
    assert [row["id"] for row in listed] == [second["decision"], first["decision"]]
    assert listed[1]["edits"]["queue"] == "gpu"
    only = json.loads(run("jobs", "decisions", "--user", "bob", "--json").stdout)
    assert [row["code"] for row in only] == ["no-workload"]
    assert json.loads(run("jobs", "decisions", "--code", "placed", "--json").stdout) == [listed[1]]
    shown = json.loads(run("jobs", "decisions", first["decision"], "--json").stdout)
    assert shown == listed[1]
    text = run("jobs", "decisions", first["decision"]).stdout
    named = shell(site, "jobs", "decisions", first["decision"], "--site", site.site_file)
    assert (named.returncode, named.stdout) == (0, text)
    before = shell(site, "jobs", "decisions", "--site", site.site_file, first["decision"])
    assert (before.returncode, before.stdout) == (0, text)
    elsewhere = shell(site, "jobs", "decisions", "x", "--store", site.folder / "other.db")
    assert (elsewhere.returncode, "other.db" in elsewhere.stderr) == (2, True)
    assert "changed  queue=gpu" in text
    assert "limit 60m 00s" in text
    store.outcomes.put([PlacedRun("lab", "17", "alice", "completed", decision=first["decision"])])
    assert "job 17: completed" in run("jobs", "decisions", "17").stdout
    commands = fake_slurm(site.folder / "bin")
    commands.says("squeue", f"JobId=18 JobName=x AdminComment={first['stamp']} WorkDir=/\n")
    monkeypatch.setenv("PATH", f"{commands.tools}:{os.environ['PATH']}")
    assert json.loads(run("jobs", "decisions", "18", "--json").stdout)["id"] == first["decision"]
    commands.fails("squeue", "")
    assert shell(site, "jobs", "decisions", "19").returncode == 2
    assert "2 decisions deleted" in run("site", "store", "prune", "--older-than-days", "0").stdout
    assert "no decisions yet" in run("jobs", "decisions").stdout


def test_a_decision_can_be_read_whatever_was_recorded(site: Harbour) -> None:
    store = site.store()
    put(store, forecast("stream"))
    daemon = site.start()
    for job in ({}, {"queues": []}, {"comment": "berth:off"}, {"comment": "berth:stream@7"}):
        reply = daemon.decide(**{"queue": "auto", "comment": "berth:stream", **job})
        record = wait_until(lambda r=reply: store.decisions.get(r["decision"]))
        assert decision_data(DecidedJob(record))["code"] == reply["code"]
        assert decision_data(DecidedJob(replace(record, user="x")))["user"] == "x"


def test_the_doctor_finds_a_sound_site_sound(
    site: Harbour, run: Run, triad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("workload", "add", triad)
    site.start()
    site.serve_users()
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("BERTH_FILTER_CONFIG", str(site.folder / "filter.conf"))
    config = run("site", "slurm", "filter-config").stdout
    (site.folder / "filter.conf").write_text(config)
    found = list(examine(load_site(site.site_file)))
    wrong = [f for f in found if f.status is not Status.OK]
    # Nobody calibrated it, its auto partition has the nodes of one other partition only, and the
    # tests' store lies in a folder for temporary files.
    assert {f.check for f in wrong} == {"placement", "auto partition", "store"}, wrong
    assert {f.check for f in found} == {
        "changes",
        "site file",
        "bundle",
        "placement",
        "store",
        "learning",
        "daemon",
        "users",
        "auto partition",
        "usage",
        "scheduler",
        "filter",
    }


def test_the_doctor_names_a_failure_once(site: Harbour) -> None:
    """A wrong name of the scheduler's user was in five lines, a store that is not there in two."""
    site.write_site(user="slrum")
    failures = [f.text for f in examine(load_site(site.site_file)) if f.status is Status.FAIL]
    assert len([text for text in failures if "'slrum'" in text]) == 1
    assert len([text for text in failures if "store.db" in text]) == 1
    assert len(failures) == len(set(failures))


def test_the_doctor_looks_and_changes_nothing(site: Harbour) -> None:
    list(examine(load_site(site.site_file)))
    assert not (site.folder / "store.db").exists()


def test_pruning_makes_no_store_where_there_is_none(site: Harbour) -> None:
    """A disk that is not mounted, or a mistyped path: the timer made an empty one of the next."""
    done = shell(site, "site", "store", "prune", "--older-than-days", "1")
    assert done.returncode == 1
    assert "the store is not there" in done.stderr
    assert not (site.folder / "store.db").exists()


def test_a_store_that_is_locked_is_one_sentence(site: Harbour) -> None:
    store: Store = site.store()
    assert store.database.path is not None
    holder = sqlite3.connect(store.database.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    done = shell(site, "site", "store", "prune", "--older-than-days", "1")
    assert done.returncode == 1
    assert "locked for too long" in done.stderr
    assert "Traceback" not in done.stderr
