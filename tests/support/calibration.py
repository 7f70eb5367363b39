"""A made-up cluster for calibration: its jobs end at once, with results written for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from berth.pilot.documents import write_json
from berth.pilot.errors import SchedulerError
from berth.pilot.gpu.suite_kernels import KERNELS
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import SIZE, NodeMeasurement
from berth.pilot.platform import AllReduce, Interconnect, SignatureSource
from berth.pilot.run import Run
from berth.plugin.first_site.stub import STUB_MARK
from berth.plugin.scheduler import ClusterFacts, NodeFacts, NodeJob, QueueFacts
from berth.plugin.site.load import load_site
from berth.plugin.site.site import Site
from berth.plugin.slurm.scheduler import Slurm
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import Allocation

KERNEL = "Linux 6.1.0-18-amd64"

SITE = """\
# ours
schema = "berth.site/1"
mode = "shadow"

[site]
reference_platform = "quick"
reference_partition = "fast"

[[platforms]]
# a stub
name = "quick"
file = "platforms/quick.json"
price_per_hour = 2.5

[[candidates]]
name = "fast"
platform = "quick"
partition = "fast"

[[candidates]]
name = "slow"
platform = "rome-7742"
partition = "slow"

[[candidates]]
name = "gpu"
platform = "p100-16gb"
partition = "gpu"
gres = "gpu:p100"
cores_per_node = 8
"""


def node(name: str, queue: str, **changes: object) -> NodeFacts:
    """A free node of 4 cores."""
    made = NodeFacts(
        name, (queue,), usable=True, cores=4, idle_cores=4, memory_bytes=2**33, system=KERNEL
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def facts(*nodes: NodeFacts) -> ClusterFacts:
    """A cluster of these nodes."""
    queues = {q: QueueFacts(q, up=True) for n in nodes for q in n.queues}
    return ClusterFacts("test", "1", 0.0, queues, nodes)


CLUSTER = facts(
    node("f1", "fast"),
    node("f2", "fast"),
    node("s1", "slow"),
)
WITH_GPU = facts(
    *CLUSTER.nodes,
    node("g1", "gpu", gpus={"gpu:p100": 1}, idle_gpus={"gpu:p100": 1}),
)


def write_site(folder: Path) -> Site:
    """A site with a stub, a shipped platform and a GPU."""
    known = platforms.load()
    (folder / "platforms").mkdir()
    rome = known["rome-7742"]
    guessed = rome.signature.model_copy(update={"source": SignatureSource.RULE_OF_THUMB})
    stub = rome.model_copy(update={"name": "quick", "description": STUB_MARK, "signature": guessed})
    write_json(folder / "platforms" / "quick.json", stub)
    (folder / "berth.toml").write_text(SITE)
    return load_site(folder / "berth.toml")


def measurement(
    name: str, kind: str, factor: float, *, kernels: int = 12, **changes: object
) -> NodeMeasurement:
    """Every kernel so many times as long as on the machine that the suite was counted on."""
    home = platforms.load()["epyc-genoa-vm"]
    seconds = {
        k: p.runtime.median_s * factor
        for k, p in list(suite_profiles().items())[:kernels]
        if p.runtime is not None
    }
    measured = {
        "flops_f64_per_s": home.signature.flops_f64_per_s / factor,
        "kernel_times_s": {f"{name.replace('-', '@', 1)}x1": s for name, s in seconds.items()},
        "core_score": None,
        "scalar_chain_core_per_s": None,
    }
    signature = home.signature.model_copy(update=measured)
    made = NodeMeasurement(
        node=name,
        host=name,
        kernel=KERNEL,
        platform=home.model_copy(update={"name": kind, "signature": signature}),
        seconds=seconds,
        complete=True,
    )
    return made.model_copy(update=changes)


def gpu_measurement(name: str, kind: str, factor: float) -> NodeMeasurement:
    """Every GPU kernel so many times as long as predicted from the suite's own machine."""
    known = platforms.load()
    card, home = known["p100-16gb"], known["epyc-genoa-vm"]
    rates = card.signature.model_copy(update={"source": SignatureSource.BENCHMARK})
    predictor = Predictor.load()
    seconds = {
        p.name: factor
        * predictor.predict_points(p, [Allocation(card, 1)], reference=home)[0].runtime_s.mid
        for kernel in KERNELS
        for p in [suite_profiles()[f"{kernel}-{SIZE}"]]
    }
    return NodeMeasurement(
        node=name,
        host=name,
        kernel=KERNEL,
        platform=card.model_copy(update={"name": kind, "signature": rates}),
        seconds=seconds,
        complete=True,
    )


def link(job: NodeJob, **changes: object) -> LinkMeasurement:
    """What a job on two nodes finds between them."""
    assert job.second_node is not None
    made = LinkMeasurement(
        nodes=(job.node, job.second_node),
        kernel=KERNEL,
        measured="2026-01-01T00:00:00+00:00",
        interconnect=Interconnect(
            latency_s=2e-6,
            bytes_per_s=1e10,
            all_reduce=(AllReduce(ranks=2, message_bytes=8, seconds=4e-6),),
            measured_with="MPI: Open MPI v4.1.4",
            nodes=(job.node, job.second_node),
        ),
        complete=True,
    )
    return made.model_copy(update=changes)


class FakeScheduler(Slurm):
    """Jobs run as soon as they are asked about; ``runs`` makes what they write."""

    def __init__(
        self,
        runs: Callable[[NodeJob], NodeMeasurement | LinkMeasurement | None],
        *,
        closed: Sequence[str] = (),
        waiting: Sequence[str] = (),
        cluster: ClusterFacts = CLUSTER,
    ) -> None:
        super().__init__()
        self._runs, self._closed, self._waiting = runs, closed, waiting
        self._cluster = cluster
        self.jobs: dict[str, NodeJob] = {}
        self.submissions = 0
        self.interrupt_at: int | None = None

    def read(self, *, full: bool = True) -> ClusterFacts:
        return self._cluster

    def node_command(self, job: NodeJob) -> tuple[str, ...]:
        self._last = job
        return ("submit", job.name)

    def submit(self, command: Sequence[str]) -> str:
        job = self._last
        if job.queue in self._closed:
            raise SchedulerError("sbatch failed with status 1: invalid account or partition")
        self.submissions += 1
        self.jobs[str(self.submissions)] = job
        if self.submissions == self.interrupt_at:
            raise KeyboardInterrupt
        return str(self.submissions)

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Run]:
        return {job_id: self._outcome(job_id) for job_id in job_ids}

    def _outcome(self, job_id: str) -> Run:
        job = self.jobs[job_id]
        if job.node in self._waiting:
            return Run("", job_id, state="pending", partition=job.queue, elapsed_s=0.0)
        result = self._runs(job)
        path = job.script.with_suffix(".json")
        if result is None:
            job.output.write_text("cc: error: unrecognized option\n")
            return Run("", job_id, state="failed", partition=job.queue, elapsed_s=1.0)
        write_json(path, result)
        return Run("", job_id, state="completed", partition=job.queue, elapsed_s=1.0)
