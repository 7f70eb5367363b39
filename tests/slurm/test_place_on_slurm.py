"""berth site init and berth place --submit on a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from slurm_cluster import Cluster
from toy_profiles import profile

from berth.pilot.documents import write_json
from berth.plugin.cli.place.command import place
from berth.plugin.cli.site.init import init
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.findings import Status
from berth.plugin.scheduler import state_reader
from berth.plugin.site import Site, load_site
from berth.plugin.slurm.checks import check_setup
from berth.plugin.slurm.cluster import read_cluster
from berth.plugin.slurm.filter import FILTER_PATH
from berth.plugin.slurm.scheduler import Slurm

SLEEP = "#!/bin/sh\nexec sleep 60\n"


@pytest.fixture
def site_file(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What ``berth site init`` writes of the cluster."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    path = tmp_path / "berth.toml"
    done = CliRunner().invoke(init, ["--output", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    return path


@pytest.fixture
def site(site_file: Path) -> Site:
    return load_site(site_file)


def test_init_finds_the_partitions_and_their_hardware(site: Site) -> None:
    found = {c.name: c for c in site.candidates}
    assert set(found) == {"cpu-intel", "cpu-amd", "gpu", "mig", "reserved", "closed"}
    assert site.auto_queue == "auto"
    assert site.reference_queue == "cpu"
    intel, gpu, mig = found["cpu-intel"], found["gpu"], found["mig"]
    assert (intel.constraint, intel.cores_per_node, intel.nodes) == ("intel", 32, 1)
    assert (gpu.platform, gpu.gres, gpu.gpus_per_node) == ("h200-141gb", "gpu:h200", 4)
    assert (mig.platform, mig.gpus_per_node, mig.max_time_s) == ("h100-mig-1g.10gb", 7, 43200.0)


def set_features(slurm: Cluster, node: str, text: str) -> None:
    both = (f"AvailableFeatures={text}", f"ActiveFeatures={text}")
    slurm.run("scontrol", "update", f"NodeName={node}", *both, user="root")


@pytest.fixture
def mixed(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A partition of three kinds, of which one is told apart by two features together, and two
    partitions that are not for users."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    features = {"cpu1": "rome,ib", "cpu2": "rome,big", "gpu1": "genoa,ib"}
    before = {node.name: ",".join(node.features) for node in read_cluster().nodes}
    for name, text in features.items():
        set_features(slurm, name, text)
    for words in (("mixed", "Nodes=cpu1,cpu2,gpu1"), ("secret", "Nodes=cpu1", "Hidden=YES"),
                  ("staff", "Nodes=cpu1", "RootOnly=YES")):  # fmt: skip
        name, *more = words
        slurm.run("scontrol", "create", f"PartitionName={name}", *more, user="root")
    yield
    slurm.cancel_everything()
    for name in ("mixed", "secret", "staff"):
        slurm.run("scontrol", "delete", f"PartitionName={name}", user="root")
    for name, text in ((name, before[name]) for name in features):
        set_features(slurm, name, text)


def test_init_tells_kinds_apart_as_slurm_does(slurm: Cluster, mixed: None, site: Site) -> None:
    found = {c.name: (c.constraint, c.nodes) for c in site.candidates if c.queue == "mixed"}
    assert found == {
        "mixed-rome-ib": ("rome&ib", 1), "mixed-big": ("big", 1), "mixed-h200": (None, 1),
    }  # fmt: skip
    job = slurm.sbatch("-p", "mixed", "-C", "rome&ib", script=SLEEP)
    slurm.wait_for_state(job.id, "RUNNING")
    assert slurm.job(job.id)["NodeList"] == "cpu1"
    assert not {c.queue for c in site.candidates} & {"secret", "staff"}
    text = Path(site.source).read_text()
    assert "secret (Hidden=YES), staff (RootOnly=YES)" in text


def test_states_follow_what_runs_and_waits(slurm: Cluster, site: Site) -> None:
    read = state_reader(Slurm(), site.candidates)
    idle = read().states
    assert (idle["gpu"].up, idle["gpu"].idle_gpus, idle["gpu"].idle_cores) == (True, 4, 64)
    assert not idle["closed"].up
    job = slurm.sbatch("-p", "gpu", "--gres=gpu:h200:3", "-c", "10", script=SLEEP)
    slurm.sbatch("-p", "gpu", "--gres=gpu:h200:3", script=SLEEP)
    slurm.wait_for_state(job.id, "RUNNING")
    busy = read().states
    assert (busy["gpu"].idle_gpus, busy["gpu"].idle_cores) == (1, 54)
    assert busy["gpu"].pending_jobs == 1
    assert busy["cpu-amd"].idle_cores == 64


def test_drained_nodes_do_not_count(slurm: Cluster, site: Site) -> None:
    slurm.run("scontrol", "update", "node=mig1", "state=drain", "reason=test", user="root")
    try:
        assert state_reader(Slurm(), site.candidates)().states["mig"].usable_nodes == 0
    finally:
        slurm.run("scontrol", "update", "node=mig1", "state=resume", user="root")


def test_place_submits_where_it_decided(
    slurm: Cluster, site_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(slurm.work)  # where the job's output goes
    tiny = profile("tiny", runtime_s=0.1, platform="nowhere")
    write_json(tmp_path / "tiny.json", tiny)
    arguments = [str(tmp_path / "tiny.json"), "--site", str(site_file), "--json", "--submit"]
    done = CliRunner().invoke(place, [*arguments, "--", "true"], catch_exceptions=False)
    answer = json.loads(done.output)
    assert answer["chosen"] in ("cpu-intel", "cpu-amd")
    job_id = answer["job_id"]
    assert slurm.wait_for_state(job_id) == "COMPLETED"
    found = slurm.job(job_id)
    assert found["Partition"] == "cpu"
    assert found["Features"] == answer["edit"]["constraint"]
    assert found["Comment"] == "berth:tiny"
    assert Slurm().outcomes([job_id])[job_id].state == "completed"


def test_the_doctor_reads_slurms_own_configuration(slurm: Cluster, site: Site) -> None:
    slurm.set_job_submit(FILTER_PATH.read_text())
    found = list(check_setup(site))
    texts = {f.text for f in found if f.status is Status.OK}
    assert any(text.endswith("is this version's filter") for text in texts), found
    failed = [f for f in found if f.status is Status.FAIL]
    assert not failed, failed  # Lua's libraries, munge, GresTypes
    assert not [f for f in found if f.check in ("clock", "version")], found
    places = [f for f in check_cluster(site, Slurm()) if f.status is Status.FAIL]
    assert not places, places
    slurm.set_job_submit("return slurm.SUCCESS\n")
    assert any("does not load Berth's filter" in f.text for f in check_setup(site))
