"""Each scheduler behind the same door: recorded ones everywhere, real ones where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from doors import Door
from fake_flux import FakeFlux
from fake_pyslurm import recorded_pyslurm
from fake_slurm import FakeSlurm, accounted
from flux_instance import frobnicators, live_flux, why_no_flux
from slurm_cluster import Cluster, ClusterUnavailable, cluster, require_slurm

from berth.plugin.scheduler import scheduler_named
from berth.plugin.slurm.scheduler import Slurm
from berth.plugin.slurm.settings import SlurmSettings


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    try:
        require_slurm()
    except ClusterUnavailable as missing:
        pytest.skip(f"NOT TESTED ON A REAL SLURM: {missing}")
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def flux_uri() -> Iterator[str]:
    reason = why_no_flux()
    if reason is not None:
        pytest.skip(f"NOT TESTED ON A REAL FLUX: {reason}")
    with live_flux(frobnicators()) as running:
        yield running.uri


def _recorded_slurm(request: pytest.FixtureRequest, folder: Path) -> Door:
    fake = FakeSlurm(folder, request.getfixturevalue("monkeypatch"))
    fake.says("sbatch", "4711\n")
    fake.says("sacct", accounted("4711"))
    return Door(scheduler_named("slurm"), "cpu", "gpu", "gpu:h100", fake)


def _recorded_flux(request: pytest.FixtureRequest, folder: Path) -> Door:
    fake = FakeFlux(folder, request.getfixturevalue("monkeypatch"))
    return Door(scheduler_named("flux"), "cpu", "gpu", "gpu", fake)


def _real_slurm(request: pytest.FixtureRequest, _folder: Path) -> Door:
    running: Cluster = request.getfixturevalue("slurm_cluster")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, running.environment[name])
    return Door(scheduler_named("slurm"), "cpu", "gpu", "gpu:h200")


def _real_flux(request: pytest.FixtureRequest, _folder: Path) -> Door:
    request.getfixturevalue("monkeypatch").setenv("FLUX_URI", request.getfixturevalue("flux_uri"))
    return Door(scheduler_named("flux"), "cpu", "gpu", "gpu")


def _recorded_pyslurm(request: pytest.FixtureRequest, folder: Path) -> Door:
    """Data in pyslurm's form: pyslurm itself needs the Slurm that it was built for."""
    door = _recorded_slurm(request, folder)
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setitem(sys.modules, "pyslurm", recorded_pyslurm())
    assert isinstance(door.fake, FakeSlurm)
    door.fake.says("version", "slurm 25.11.0\n")
    return replace(door, scheduler=Slurm(SlurmSettings(read_with="pyslurm")))


DOORS: dict[str, Callable[[pytest.FixtureRequest, Path], Door]] = {
    "slurm-recorded": _recorded_slurm,
    "flux-recorded": _recorded_flux,
    "slurm-real": _real_slurm,
    "flux-real": _real_flux,
    "pyslurm-recorded": _recorded_pyslurm,
}
MARKS = {"slurm-real": pytest.mark.slurm, "flux-real": pytest.mark.flux}


@pytest.fixture(params=[pytest.param(n, marks=MARKS.get(n, ())) for n in DOORS])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Door:
    """Each of them in turn."""
    return DOORS[request.param](request, tmp_path / "tools")


@pytest.fixture(params=["slurm-recorded", "flux-recorded"])
def fake_door(request: pytest.FixtureRequest, tmp_path: Path) -> Door:
    """Those that can be told what to answer."""
    return DOORS[request.param](request, tmp_path / "tools")
