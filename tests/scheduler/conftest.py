"""Each scheduler behind the same contract: recorded ones everywhere, real ones where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from berth_daemon import harbour
from cases import Case
from fake_flux import recorded_flux
from fake_slurm import accounted, recorded_slurm
from flux_bench import FluxBench
from flux_instance import frobnicators, live_flux, why_no_flux
from slurm_cluster import Cluster, ClusterUnavailable, cluster, require_slurm

from berth.plugin.scheduler import scheduler_named


@pytest.fixture
def bench() -> Iterator[FluxBench]:
    """Flux's filter, which looks for its daemon in a folder with a short path."""
    with harbour() as made:
        yield FluxBench(made.folder)


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


def _recorded_slurm(request: pytest.FixtureRequest, folder: Path) -> Case:
    fake = recorded_slurm(folder, request.getfixturevalue("monkeypatch"))
    fake.says("sbatch", "4711\n")
    fake.says("sacct", accounted("4711"))
    return Case(scheduler_named("slurm"), "cpu", "gpu", "gpu:h100", fake)


def _recorded_flux(request: pytest.FixtureRequest, folder: Path) -> Case:
    fake = recorded_flux(folder, request.getfixturevalue("monkeypatch"))
    return Case(scheduler_named("flux"), "cpu", "gpu", "gpu", fake)


def _real_slurm(request: pytest.FixtureRequest, _folder: Path) -> Case:
    running: Cluster = request.getfixturevalue("slurm_cluster")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, running.environment[name])
    return Case(scheduler_named("slurm"), "cpu", "gpu", "gpu:h200")


def _real_flux(request: pytest.FixtureRequest, _folder: Path) -> Case:
    request.getfixturevalue("monkeypatch").setenv("FLUX_URI", request.getfixturevalue("flux_uri"))
    return Case(scheduler_named("flux"), "cpu", "gpu", "gpu")


CASES: dict[str, Callable[[pytest.FixtureRequest, Path], Case]] = {
    "slurm-recorded": _recorded_slurm,
    "flux-recorded": _recorded_flux,
    "slurm-real": _real_slurm,
    "flux-real": _real_flux,
}
MARKS = {"slurm-real": pytest.mark.slurm, "flux-real": pytest.mark.flux}


@pytest.fixture(params=[pytest.param(n, marks=MARKS.get(n, ())) for n in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Each of them in turn."""
    return CASES[request.param](request, tmp_path / "tools")


@pytest.fixture(params=[pytest.param(name, marks=mark) for name, mark in MARKS.items()])
def live_case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Those where submitted jobs run."""
    return CASES[request.param](request, tmp_path / "tools")


@pytest.fixture(params=["slurm-recorded", "flux-recorded"])
def fake_case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Those that can be told what to answer."""
    return CASES[request.param](request, tmp_path / "tools")
