"""``berth site calibrate`` on a real Flux: its jobs, its results, the bundle that it installs.

Kernels would take minutes: the jobs find the times in a file. What connects two nodes is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flux_instance import ONLY_ON_FLUX, LiveFlux, live_flux

from berth.pilot.documents import write_json
from berth.pilot.node import NodeMeasurement
from berth.plugin.calibrate import jobs
from berth.plugin.cli.site.calibrate import calibrate
from berth.plugin.cli.site.init import init
from berth.plugin.site import load_site
from berth.predictor.families.program.bundle import load
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms

pytestmark = ONLY_ON_FLUX

STAND_IN = """#!/bin/sh
[ "$2" = link ] && exec {berth} "$@"
while [ $# -gt 0 ]; do
  case $1 in --node) node=$2;; --into) into=$2;; esac
  shift
done
echo "measured $node" >&2
cp {folder}/$node.json "$into"
"""


@pytest.fixture(scope="module")
def instance() -> Iterator[LiveFlux]:
    with live_flux("", size=4) as flux:
        yield flux


@pytest.fixture
def flux(instance: LiveFlux, monkeypatch: pytest.MonkeyPatch) -> LiveFlux:
    monkeypatch.setenv("FLUX_URI", instance.uri)
    monkeypatch.chdir(instance.folder)
    return instance


def prepare(folder: Path, kind: str, factors: dict[str, float]) -> str:
    """A ``berth`` whose node measurements are these; its path."""
    home = platforms.load()["epyc-genoa-vm"].model_copy(update={"name": kind})
    for node, factor in factors.items():
        seconds = {
            name: profile.runtime.median_s * factor
            for name, profile in list(suite_profiles().items())[:12]
            if profile.runtime is not None
        }
        made = NodeMeasurement(node=node, host=node, platform=home, seconds=seconds, complete=True)
        write_json(folder / f"{node}.json", made)
    stand_in = folder / "stand-in"
    berth = Path(sys.executable).with_name("berth")
    stand_in.write_text(STAND_IN.format(berth=berth, folder=folder))
    stand_in.chmod(0o755)
    return str(stand_in)


def run(*words: str) -> Result:
    done = CliRunner().invoke(calibrate, words)
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    return done


def test_each_kind_is_measured_by_jobs_of_flux_and_installed(
    flux: LiveFlux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "berth.toml"
    made = CliRunner().invoke(init, ("--scheduler", "flux", "--output", str(file)))
    assert made.exit_code == 0, made.output
    kind = next(c.platform for c in load_site(file).candidates if c.queue == "cpu")
    stand_in = prepare(tmp_path, kind, {"node0": 1.0, "node1": 1.3})
    monkeypatch.setattr(jobs, "berth_command", lambda: stand_in)
    monkeypatch.setattr(jobs, "POLL_S", (0.2, 0.5))
    site = ("--site", str(file))
    asked = run(*site, "--kind", kind, "--dry-run").output
    assert "2 nodes of 1 kind, each alone" in asked
    assert "And what connects two nodes of 1 kind" in asked
    said = run(*site, "--kind", kind, "--no-links", "--wait", "60s").output
    assert "CHECK" in said
    assert "its nodes differ" in said
    new = load_site(file)
    (bundle,) = new.bundles
    labelled = {entry.platform for entry in load(bundle).manifest.labelled}
    assert kind in labelled
    assert "The filter can act on: cpu" in said
    assert "measured node0" in (tmp_path / "calibration" / kind / "node0.log").read_text()
    states = flux.run("jobs", "-a", "-n", "-o", "{name} {result}").splitlines()
    own = sorted(state for state in states if state.startswith("calibrate-"))
    assert own == ["calibrate-node0 COMPLETED", "calibrate-node1 COMPLETED"]
    again = run(*site, "--kind", kind, "--no-links").output
    assert "Nothing is left to measure." in again


def test_a_job_on_two_nodes_of_flux_measures_what_connects_them(
    flux: LiveFlux, tmp_path: Path
) -> None:
    from berth.pilot.documents import read_json
    from berth.pilot.network.links import LinkMeasurement
    from berth.plugin.flux.scheduler import Flux
    from berth.plugin.scheduler import NodeJob

    tmp_path.chmod(0o755)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mpicc").write_text("#!/bin/sh\nexit 1\n")
    (tools / "mpicc").chmod(0o755)
    into, script = tmp_path / "pair.json", tmp_path / "pair.sh"
    berth = Path(sys.executable).with_name("berth")
    script.write_text(
        f"#!/bin/sh\nPATH={tools}:$PATH exec {berth} pilot link --nodes node0,node1 "
        f'--into {into} --launcher "{Flux.pair_launcher}"\n'
    )
    job = NodeJob(
        name="pair", script=script, output=tmp_path / "log", queue="cpu", node="node0",
        time_limit_s=200, second_node="node1",
    )  # fmt: skip
    scheduler = Flux()
    job_id = scheduler.submit(scheduler.node_command(job))
    flux.run("job", "wait-event", "-t", "120s", job_id, "clean", timeout_s=150)
    assert into.exists(), (tmp_path / "log").read_text()
    found = read_json(into, LinkMeasurement)
    assert found.complete, found.problems
    assert found.interconnect is not None
    assert found.interconnect.latency_s is not None
    assert found.interconnect.measured_with == "TCP"
