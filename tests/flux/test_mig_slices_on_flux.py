"""MIG on a real Flux: a queue for each profile, slices as GPUs, handed to tasks by UUID."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from flux_instance import LiveFlux, frobnicators, live_flux, why_no_flux

from berth.plugin.flux.filter import MIG_SLICES_PATH
from berth.plugin.flux.mig import configuration
from berth.policies.mig import Layout

pytestmark = [
    pytest.mark.flux,
    pytest.mark.skipif(why_no_flux() is not None, reason=f"NOT TESTED LIVE: {why_no_flux()}"),
]
QUEUE = "mig-1g.10gb"
SHOW = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shell plugin, looking for the list of slices here."""
    made = tmp_path_factory.mktemp("shell")
    text = MIG_SLICES_PATH.read_text().replace("/etc/berth/mig-slices", str(made / "slices"))
    (made / "mig_slices.lua").write_text(text)
    return made


@pytest.fixture(scope="module")
def flux() -> Iterator[LiveFlux]:
    with live_flux(frobnicators()) as running:
        yield running


@pytest.fixture
def slices(folder: Path) -> Iterator[Path]:
    path = folder / "slices"
    path.write_text("# GPU 0\n" + "".join(f"MIG-{i}-uuid\n" for i in range(7)))
    yield path
    path.unlink(missing_ok=True)


def run(flux: LiveFlux, folder: Path, *words: str) -> list[str]:
    """What the tasks see; the plugin is loaded as a user's, a site puts it in lua.d."""
    options = ("-q", QUEUE, "-t", "1m", "-o", f"userrc={folder}/mig_slices.lua")
    return sorted(flux.run("run", *options, *words, *SHOW).split())


def test_tasks_see_their_slices_by_uuid(flux: LiveFlux, folder: Path, slices: Path) -> None:
    assert run(flux, folder, "-n1", "-g1") == ["MIG-0-uuid"]
    assert run(flux, folder, "-n1", "-g2") == ["MIG-0-uuid,MIG-1-uuid"]
    each = run(flux, folder, "-n3", "-g1", "-o", "gpu-affinity=per-task")
    assert each == ["MIG-0-uuid", "MIG-1-uuid", "MIG-2-uuid"]


def test_without_slices_asked_there_are_none(flux: LiveFlux, folder: Path, slices: Path) -> None:
    assert run(flux, folder, "-n1") == ["-1"]


def test_a_node_without_the_list_is_left_alone(flux: LiveFlux, folder: Path) -> None:
    assert run(flux, folder, "-n1", "-g2") == ["0,1"]


def test_a_slice_that_is_not_in_the_list_is_no_device(
    flux: LiveFlux, folder: Path, slices: Path
) -> None:
    slices.write_text("MIG-0-uuid\n")
    assert run(flux, folder, "-n1", "-g1") == ["MIG-0-uuid"]
    assert run(flux, folder, "-n1", "-g2") == ["-1"]


def test_more_slices_than_there_are_never_run(flux: LiveFlux) -> None:
    job = flux.submit("-q", QUEUE, "-g8", "true")
    flux.run("job", "wait-event", "-t", "30", job, "clean")
    assert "unsatisfiable" in flux.run("job", "info", job, "eventlog")


def test_a_plan_is_rendered_as_what_flux_takes() -> None:
    """The instance of these tests has queues of that form."""
    layouts = {"n0": [Layout.parse("1g.10gb@0 1g.10gb@1")], "n1": [Layout.parse("3g.40gb@0")]}
    tables = tomllib.loads(configuration(layouts, 8))["queues"]
    assert tables == {
        "mig-1g.10gb": {"requires": ["mig-1g.10gb"]},
        "mig-3g.40gb": {"requires": ["mig-3g.40gb"]},
    }
