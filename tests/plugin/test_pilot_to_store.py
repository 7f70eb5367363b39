"""``berth pilot run --store``: from a run to a placed job without a step by hand."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from berth_daemon import Harbour, wait_until
from click.testing import CliRunner, Result

from berth.pilot.errors import UsageError
from berth.pilot.host import cpu_model, topology
from berth.pilot.platform import Platform
from berth.plugin.cli.command_line import berth
from berth.plugin.cli.pilot.common import must_count
from berth.plugin.cli.pilot.this_machine import platform_of_this_machine
from berth.predictor.hardware import platforms as catalogue

QUICK = ("--repeats", "1", "--quiet")


@pytest.fixture
def run(site: Harbour, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BERTH_SITE", str(site.site_file))
    monkeypatch.setenv("BERTH_PLATFORM", "epyc-genoa-vm")

    def invoke(*words: str | Path) -> Result:
        return CliRunner().invoke(berth, [str(word) for word in words])

    return invoke


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="nothing counts instructions here")
def test_a_run_is_in_the_store_at_once_and_the_daemon_knows_it(site: Harbour, run) -> None:
    daemon = site.start()
    words = ("--count", "--name", "app", *QUICK, "--json", "--", "/bin/ls", "/")
    done = run("pilot", "run", "--store", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["name"] == "app"
    assert "jobs name it: --comment=berth:app" in done.stderr
    assert [w.name for w in site.store().workloads()] == ["app"]

    def decided() -> dict[str, Any] | None:
        reply = daemon.decide(queue="auto", comment="berth:app")
        return None if reply["code"] == "no-workload" else reply

    assert "workload=app" in wait_until(decided)["stamp"]


def test_a_run_with_time_and_memory_alone_is_in_the_store(
    site: Harbour, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--name", "app", "--collectors", "proc", *QUICK, "--", "/bin/ls")
    done = run("pilot", "run", "--store", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert [w.name for w in site.store().workloads()] == ["app"]
    assert not (tmp_path / "app.profile.json").exists()


@pytest.mark.parametrize(
    ("schema", "counts"), [("berth.relative-bundle/1", True), ("berth.bundle/1", False)]
)
def test_a_pilot_counts_where_a_bundle_of_the_site_predicts_from_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], schema: str, counts: bool
) -> None:
    bundle = tmp_path / "own"
    bundle.mkdir()
    (bundle / "manifest.json").write_text(json.dumps({"schema": schema}))
    site = SimpleNamespace(bundles=(bundle,))
    assert must_count(site) is counts  # type: ignore[arg-type]
    assert ("bundle own predicts from counters" in capsys.readouterr().err) is counts
    assert must_count(SimpleNamespace(bundles=())) is False  # type: ignore[arg-type]


def test_a_run_that_nothing_can_be_predicted_from_is_kept_in_a_file(
    site: Harbour, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise UsageError("no family can predict it")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("berth.plugin.cli.pilot.deliver.Destination.add", refuse)
    done = run(
        "pilot", "run", "--store", "--name", "app", "--collectors", "proc", *QUICK, "--", "/bin/ls"
    )
    assert isinstance(done.exception, UsageError)
    assert "kept in app.profile.json" in done.stderr
    assert json.loads((tmp_path / "app.profile.json").read_text())["name"] == "app"
    assert site.store().workloads() == []


def test_a_name_that_is_taken_is_said_before_anything_runs(
    site: Harbour, run, tmp_path: Path
) -> None:
    from berth_daemon import forecast
    from made_forecasts import put

    put(site.store(), forecast("app"))
    touched = tmp_path / "touched"
    program = (sys.executable, "-c", f"open({str(touched)!r}, 'w')")
    done = run("pilot", "run", "--store", "--name", "app", *QUICK, "--", *program)
    assert isinstance(done.exception, UsageError)
    assert "named 'app' is in" in done.exception.message
    assert "--replace" in (done.exception.hint or "")
    assert not touched.exists()
    off = run("pilot", "run", "--store", "--name", "off", *QUICK, "--", *program)
    assert isinstance(off.exception, UsageError)
    stray = run("pilot", "run", "--replace", *QUICK, "--", *program)
    assert isinstance(stray.exception, UsageError)


def machines(**cores: int) -> dict[str, Platform]:
    """Platforms with this machine's processor, by name, with these numbers of cores."""
    vm = catalogue.get("epyc-genoa-vm")
    return {
        name: vm.model_copy(update={"name": name, "processor": cpu_model(), "cores": count})
        for name, count in cores.items()
    }


def test_a_machine_is_the_platform_with_its_processor_and_cores() -> None:
    here = topology().cores
    other = machines(other=here)["other"].model_copy(update={"processor": "Another CPU"})
    assert platform_of_this_machine(machines(old=here, big=here + 1) | {"x": other}) == "old"
    assert platform_of_this_machine(machines(big=here + 1)) == "big"
    assert platform_of_this_machine({"x": other}) is None
    with pytest.raises(UsageError, match="processor: a, b"):
        platform_of_this_machine(machines(a=here, b=here))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_profile_for_the_store_is_of_the_platform_that_this_machine_is(
    site: Harbour, run, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    monkeypatch.delenv("BERTH_PLATFORM")
    named = "epyc-genoa-vm" if is_known else None
    monkeypatch.setattr(
        "berth.plugin.cli.pilot.this_machine.platform_of_this_machine", lambda _: named
    )
    words = ("--name", "app", "--json", "--collectors", "proc", *QUICK, "--", "/bin/ls", "/")
    done = run("pilot", "run", "--store", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["platform"] == (named or "local")
    said = "this machine is platform epyc-genoa-vm" if is_known else "no platform of the site names"
    assert said in done.stderr
