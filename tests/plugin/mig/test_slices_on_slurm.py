"""On a real Slurm: the submit filter names slices that a node has, before and after it is cut."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from every_kind import workloads
from real_daemon import RealDaemon
from slurm_cluster import Cluster, wait_until
from slurm_node import Node, keeper, show_node

from berth.plugin.forecasting import platforms_for
from berth.plugin.mig.apply import Applier
from berth.plugin.mig.automatic import think
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.recommending import demands_of, predictions_for, with_workloads
from berth.plugin.mig.settings import TriggerSettings
from berth.plugin.slurm.mig.queue import seen_now
from berth.plugin.store import Store
from berth.plugin.workloads.filing import add_workload
from berth.policies.mig import lookup
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.families.slices.workload import MemoryNeed, SliceWorkload, WholeRun

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

WORKLOADS = workloads("epyc-genoa-vm", "a100-40gb", "A100-40GB")
KINDS = ("inference", "training", "service")
"""A model graph, a training step, a language model: no run of them was measured anywhere."""
RELOADED = "site file read again"
SITE = """\
schema = "berth.site/1"
mode = "enforce"
[site]
name = "test"
auto_partition = "auto"
[policy]
allow_prior = true
[daemon]
socket = "{root}/run/berth.sock"
store = "sqlite:///{root}/store/slices.db"
kill_switch = "{root}/run/off"
scheduler_users = ["root"]
state_refresh_s = {refresh_s}
[messages]
show = "all"
[coverage]
interactive = true
[[candidates]]
name = "slice"
platform = "a100-40gb"
partition = "mig"
cores_per_node = 32
nodes = 1
max_time = "12h"
default_time = "30m"
[candidates.slices]
[candidates.translation]
gpus = 1
cpus_per_gpu = 2
"""


def workload(name: str, memory_gb: float) -> SliceWorkload:
    """A small job; its counters are those of a training run that the recommender knows well."""
    point = WholeRun(
        batch=128,
        step_s=0.0296,
        mean_step_s=0.0299,
        power_w=111,
        sm_utilization=0.43,
        memory_utilization=0.057,
    )
    return SliceWorkload(
        schema="berth.slice-workload/1",
        name=name,
        gpu="A100-40GB",
        points=(point,),
        memory=MemoryNeed(reserved_bytes=memory_gb * 1e9),
        idle_power_w=55,
        runtime_s=60,
    )


class SliceDaemon(RealDaemon):
    """A daemon over a site with slices, and workloads that went through the recommender."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.store_file = cluster.root / "store" / "slices.db"
        self.store_file.parent.mkdir(exist_ok=True)
        self.site()
        store = Store.open(f"sqlite:///{self.store_file}")
        for name, memory_gb in (("small", 4.5), ("medium", 9), ("large", 18), ("huge", 60)):
            add_workload(
                store,
                workload_of(workload(name, memory_gb)),
                forecaster=Forecaster(),
                platforms=platforms_for(None),
                owner="test",
                replace=True,
            )
        for name in KINDS:
            add_workload(
                store,
                WORKLOADS[name],
                forecaster=Forecaster(),
                platforms=platforms_for(None),
                owner="test",
                replace=True,
            )
        store.close()

    def site(self, *, refresh_s: float = 1) -> None:
        """Write the site file."""
        text = SITE.format(root=self.cluster.root, refresh_s=refresh_s)
        self.changed = refresh_s != 1
        self.reloads = self.cluster.log("berth").count(RELOADED) if self.pid else 0
        self.site_file.write_text(text)

    def follows(self) -> None:
        """Wait until it has taken the site file as it was last written."""
        wait_until(
            lambda: self.cluster.log("berth").count(RELOADED) > self.reloads, "the daemon follows"
        )

    def is_ready(self) -> bool:
        found = self.ask({"v": 1, "op": "stats"})
        return found is not None and found.get("state_age_s") is not None

    def sees_slices(self) -> None:
        """Wait until it has read the cluster after the filter was loaded."""
        probe = {"user": "root", "queue": "auto", "comment": "berth:small"}
        ask = {"v": 1, "op": "decide", "scheduler": "slurm", "job": probe}
        now = {**probe, "scheduler_since_s": math.ceil(time.time())}
        wait_until(
            lambda: (self.ask({**ask, "job": now}) or {}).get("code") == "placed",
            "the daemon has read the slices as they are now",
        )


@pytest.fixture(scope="module")
def running(slurm: Cluster) -> Iterator[SliceDaemon]:
    """The real filter and a daemon, for all tests of this file."""
    before = (slurm.etc / "job_submit.lua").read_text()
    slurm.install_filter()
    daemon = SliceDaemon(slurm)
    try:
        daemon.start()
        yield daemon
    finally:
        slurm.end("berth")
        slurm.set_job_submit(before)


@pytest.fixture
def daemon(node: Node, running: SliceDaemon) -> Iterator[SliceDaemon]:
    """The daemon over ``node`` as it is cut at first."""
    node.slurm.sbatch("-p", "cpu", "--hold")  # slurmctld loads the filter
    running.sees_slices()
    yield running
    if running.changed:
        running.site()
        running.follows()


def gres_of(slurm: Cluster, job_id: int) -> str:
    found = slurm.job(job_id)
    text = found.get("TresPerNode") or found.get("TresPerJob") or ""
    return text.replace("gres:", "").replace("gres/", "")


def test_each_job_gets_the_smallest_slice_that_its_memory_certainly_fits(
    daemon: SliceDaemon,
) -> None:
    slurm = daemon.cluster
    found = {}
    for name in ("small", "medium", "large"):
        job = slurm.sbatch("-p", "auto", f"--comment=berth:{name}", "--mem=10")
        assert slurm.wait_for_state(job.id) == "COMPLETED"
        assert slurm.job(job.id)["Partition"] == "mig"
        found[name] = gres_of(slurm, job.id)
        assert "smallest slice that will do" in job.message
    assert found == {"small": "gpu:1g.5gb:1", "medium": "gpu:2g.10gb:1", "large": "gpu:3g.20gb:1"}
    profiles = [p.name for p in lookup("A100-40GB").profiles if p.is_plain]
    seen = [a for a in seen_now(profiles) if a.job == str(job.id)]
    assert [a.profiles for a in seen] == [("3g.20gb", "4g.20gb", "7g.40gb")], "what would do, too"


def test_a_job_that_fits_no_slice_of_the_fleet_stays_where_it_is(daemon: SliceDaemon) -> None:
    job = daemon.cluster.sbatch("-p", "auto", "--comment=berth:huge")
    assert daemon.cluster.job(job.id)["Partition"] == "auto"
    assert "memory" in job.message


@pytest.mark.slow
def test_a_gpu_of_any_type_becomes_the_slice_that_fits(daemon: SliceDaemon) -> None:
    slurm = daemon.cluster
    for option in ("--gres=gpu:1", "--gpus=1", "--gpus-per-node=1", "--gres=gpu"):
        job = slurm.sbatch("-p", "auto", option, "-n1", "--comment=berth:small", "--mem=10")
        assert slurm.job(job.id)["Partition"] == "mig", option
        assert gres_of(slurm, job.id).startswith("gpu:1g.5gb"), option
        assert slurm.wait_for_state(job.id) == "COMPLETED", job.message


def test_in_a_partition_of_ones_own_only_the_type_is_added(daemon: SliceDaemon) -> None:
    slurm = daemon.cluster
    job = slurm.sbatch("-p", "mig", "--gres=gpu:1", "-n3", "--comment=berth:medium", "--mem=10")
    found = slurm.job(job.id)
    assert (found["Partition"], found["NumTasks"]) == ("mig", "3")
    assert gres_of(slurm, job.id) == "gpu:2g.10gb:1"
    assert slurm.wait_for_state(job.id) == "COMPLETED"


@pytest.mark.slow
def test_a_type_that_the_user_wrote_is_never_changed(daemon: SliceDaemon) -> None:
    slurm = daemon.cluster
    for where in ("auto", "mig"):
        job = slurm.sbatch(
            "-p", where, "--gres=gpu:3g.20gb:1", "-n1", "--comment=berth:small", "--hold"
        )
        assert gres_of(slurm, job.id) == "gpu:3g.20gb:1"


def test_a_job_is_not_sent_to_nodes_that_its_user_excludes(daemon: SliceDaemon) -> None:
    """Slurm would refuse it: no other node has such slices."""
    job = daemon.cluster.sbatch("-p", "auto", "-x", "mig1", "--comment=berth:small", "--mem=10")
    assert daemon.cluster.job(job.id)["Partition"] == "auto"


def test_several_gpus_are_several_in_whatever_form(daemon: SliceDaemon) -> None:
    slurm = daemon.cluster
    for words in (("--gpus-per-task=1", "-n2"), ("--gpus=2", "-n1")):
        job = slurm.sbatch("-p", "mig", *words, "--comment=berth:small", "--hold")
        assert "1g.5gb" not in slurm.run("scontrol", "show", "job", str(job.id)).stdout
        assert "names no type" in job.message


def test_who_names_neither_type_nor_profile_is_told_and_left_alone(daemon: SliceDaemon) -> None:
    slurm = daemon.cluster
    job = slurm.sbatch("-p", "mig", "--gres=gpu:1", "--hold")
    assert gres_of(slurm, job.id) == "gpu:1"
    assert "switched off" in job.message
    assert "--gres=gpu:2g.10gb:1" in job.message
    assert "off1" not in job.message
    typed = slurm.sbatch("-p", "mig", "--gres=gpu:2g.10gb:1", "--hold")
    assert typed.message == ""


def test_after_a_cut_no_slice_is_asked_for_that_is_gone(node: Node, daemon: SliceDaemon) -> None:
    """The daemon reads the cluster rarely here; Slurm would refuse a job whose type is gone."""
    slurm = node.slurm
    daemon.site(refresh_s=3600)
    daemon.follows()
    before = slurm.sbatch("-p", "auto", "--comment=berth:medium", "--mem=10")
    assert gres_of(slurm, before.id) == "gpu:2g.10gb:1"
    slurm.wait_for_state(before.id, "COMPLETED")
    assert node.apply("1g.5gb@0 1g.5gb@1 1g.10gb@2 3g.20gb@4") == "new"
    assert "2g.10gb" not in show_node(slurm)["Gres"]

    blind = slurm.sbatch("-p", "auto", "--comment=berth:medium", "--mem=10")
    assert slurm.job(blind.id)["Partition"] == "auto"
    assert "started anew" in blind.message

    daemon.site()
    daemon.follows()
    daemon.sees_slices()
    after = slurm.sbatch("-p", "auto", "--comment=berth:medium", "--mem=10")
    assert gres_of(slurm, after.id) == "gpu:1g.10gb:1"
    assert slurm.wait_for_state(after.id) == "COMPLETED"


@pytest.mark.slow
def test_a_graph_a_training_step_and_a_language_model_steer_a_recut_and_get_their_slices(
    node: Node, daemon: SliceDaemon
) -> None:
    slurm = daemon.cluster
    assert node.apply("7g.40gb@0") == "new"
    store = Store.reading(f"sqlite:///{daemon.store_file}")
    with Nvml() as nvml:
        fleet = nvml.read()
        demands = demands_of(
            with_workloads(None, KINDS),
            [gpu.geometry.gpu for gpu in fleet if gpu.geometry],
            lambda: predictions_for(None),
            lambda: store,
        )
        held = keeper(slurm, node.files).allocated(fleet)
        rules = TriggerSettings(enabled=True)
        thought = think(fleet, held, demands, rules, now_s=time.time(), last_cut_s=None)
        assert thought.target is not None, thought.verdict.reason
        applier = Applier(nvml, keeper(slurm, node.files), node.folder)
        assert applier.apply(thought.target).outcome == "new"
    cut = [slot.type for slot in node.slots if slot.instance is not None]
    assert len(cut) >= len(KINDS)
    daemon.sees_slices()
    memory = {p.name: p.memory_bytes for p in lookup("A100-40GB").profiles}
    for name in KINDS:
        job = slurm.sbatch("-p", "auto", f"--comment=berth:{name}", "--mem=10")
        assert slurm.job(job.id)["Partition"] == "mig", job.message
        assert slurm.wait_for_state(job.id) == "COMPLETED"
        got = gres_of(slurm, job.id).split(":")[1]
        need = demands[KINDS.index(name)]
        assert got in {option.profile for option in need.options}
        smaller = [p for p in cut if memory[p] < memory[got]]
        assert all(p not in {o.profile for o in need.options} for p in smaller)
        assert "smallest slice that will do" in job.message
