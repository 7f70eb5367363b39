"""What replaces schedulers, GPUs and long measurements while a command prints its JSON."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from berth_daemon import forecast, harbour
from calibration import FakeScheduler, measurement
from calibration import write_site as write_calibrated_site
from fake_nvml import FakeFleet, build
from fake_slurm import recorded_slurm
from imported import SAMPLES
from live_queue import pretend
from made_forecasts import put
from stand_in_replayer import StandIn
from toy_profiles import profile

from berth.pilot.documents import to_json, write_json
from berth.plugin.replay.queue_replay import Start
from berth.plugin.scheduler import JobNow
from berth.plugin.scheduler import ruled_out as ruled_out_places
from berth.plugin.scheduler.jobs import Replacing
from berth.plugin.site import load_site
from berth.plugin.slurm import put_back as putting_back
from berth.plugin.slurm.scheduler import Slurm
from berth.plugin.store import Store, WorkloadRecord
from berth.policies.mig import Layout
from berth.policies.mig.documents import GpuPlanEntry, PlanDocument
from berth.predictor.families.program.bundle import DEFAULT_BUNDLE
from berth.predictor.hardware import platforms

BEFORE = ("1g.5gb@0", "1g.5gb@1", "2g.10gb@2", "3g.20gb@4")
AFTER = ("1g.5gb@0", "1g.5gb@1", "1g.5gb@2", "1g.5gb@3", "3g.20gb@4")
_LIVE = """\
schema = "berth.site/1"
[daemon]
store = "{folder}/live.db"
[[candidates]]
name = "here"
platform = "rome-7742"
partition = "a"
"""
"""The queue of ``live_queue``."""
_CONFIG = 'schema = "berth.mig/1"\nstate_dir = "{folder}/mig-state"\n'


def write_files(folder: Path) -> None:
    """What the cases read beside the site's own files."""
    (folder / "calibrated").mkdir()
    write_calibrated_site(folder / "calibrated")
    ours = platforms.load()["quartz"].model_copy(update={"name": "ours"})
    write_json(folder / "ours.json", ours)
    entry = GpuPlanEntry(
        name="0", model="A100-40GB", uuid=None, before=BEFORE, after=AFTER, why="because",
        placements=(),
    )  # fmt: skip
    plan = PlanDocument(
        fleet_digest="x", as_of_s=0, solver="table", reached=(), gpus=(entry,), steps=(),
        unplaced=(), summary=(),
    )  # fmt: skip
    write_json(folder / "plan.json", plan)
    (folder / "live.toml").write_text(_LIVE.format(folder=folder))
    Store.open(folder / "live.db").close()
    (folder / "mig.toml").write_text(_CONFIG.format(folder=folder))


def shipped_files() -> dict[str, str]:
    return {
        "bundle": str(DEFAULT_BUNDLE),
        "kernels.cali": str(SAMPLES / "kernels.cali"),
    }


def slurm(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Slurm's commands answer from files."""
    made = recorded_slurm(Path(tempfile.mkdtemp(dir=folder)), patch)
    made.says("sbatch", "4711\n")


def put_back(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """One job waits where it cannot start."""
    slurm(patch, folder)
    stuck = putting_back.StuckJob("7", "alice", "gpu", "triad", "Resources", {}, "", "")
    patch.setattr(putting_back, "stuck_jobs", lambda _now_s: iter([stuck]))
    placed = ruled_out_places.RuledOut("gpu", "alice", "triad", "Resources", "7", 1.0)
    patch.setattr(putting_back, "put_back", lambda _stuck, _now_s: placed)


def ruled_out(_patch: pytest.MonkeyPatch, folder: Path) -> None:
    path = load_site(folder / "berth.toml").daemon.ruled_out
    one = ruled_out_places.RuledOut("gpu", "alice", "triad", "Resources", "7", 1.0)
    ruled_out_places.add(path, one)


def queue(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """Two jobs run and two wait."""
    pretend(patch)


def queried(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """A scheduler that cannot be asked for job 78; two others wait, one with an estimate and one
    with a decision that is not in the store."""
    waiting = JobNow("pending", "gpu", "other jobs (Priority)", 2e9, "n1", 0.0, 3600.0)
    known = {"79": waiting, "80": JobNow("pending", "gpu")}
    starts = {"79": (Start(2e9, 2e9 + 60.0, 2e9 + 600.0), None), "80": (None, "too many jobs wait")}

    def now(job: str) -> tuple[JobNow | None, str | None, list[str]]:
        return known.get(job), "slurmctld does not answer" if job == "78" else None, [job]

    def stamped(_self: Slurm, job: str) -> str | None:
        return "1m7y4whj8kbbvxmm" if job == "80" else None

    patch.setattr(Slurm, "stamped", stamped)
    patch.setattr("berth.plugin.report.known_job._now", now)
    patch.setattr("berth.plugin.replay.queue_replay.start_of", lambda job, *_: starts[job])


def replaced(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A scheduler that can move pending jobs has looked at two."""
    found = [
        Replacing(
            "f1", "cpu", "gpu", moved=False, decision="d1", reason="gpu is predicted fastest"
        ),
        Replacing("f2", "cpu", None, moved=False, decision=None, reason="it stays"),
    ]

    class Moving(FakeScheduler):
        def replace_pending(self, *_: object, **_more: object) -> list[Replacing]:
            return found

    patch.setattr(
        "berth.plugin.scheduler.registry.scheduler_named", lambda *_: Moving(lambda _job: None)
    )


def calibration(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """Jobs on nodes end at once."""
    factors = {"f1": 1.0, "f2": 1.02, "s1": 1.7}
    scheduler = FakeScheduler(
        lambda job: measurement(job.node, job.script.parent.name, factors[job.node])
    )
    patch.setattr("berth.plugin.scheduler.registry.scheduler_named", lambda *_: scheduler)
    patch.setattr("berth.plugin.calibrate.jobs.POLL_S", (0.001, 0.001))


def tuning(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """A replay small enough for tests, and no pictures."""
    made = {"jobs.csv": StandIn(days=30), "few.csv": StandIn(days=3)}

    def opened(_site: object, jobs: Path, *_: object) -> StandIn:
        return made[jobs.name]

    patch.setattr("berth.plugin.tune.run.open_replayer", opened)
    patch.setattr("berth.plugin.tune.replaying.open_replayer", opened)
    for name in ("front", "waits"):
        patch.setattr(f"berth.plugin.pictures.tuning.{name}", lambda *_: "<svg></svg>")


def gpus(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """One A100 with slices, by a library with NVML's symbols."""
    library = folder / "nvml"
    if not library.exists():
        library.mkdir()
        build(library)
    fleet = FakeFleet(next(library.iterdir()), folder / "fleet-state")
    fleet.reset("a100-40")
    layout = Layout.parse(" ".join(BEFORE))
    fleet.fill(0, [(one.profile, one.start) for one in layout.instances])
    patch.setenv("BERTH_MIG_CONFIG", str(folder / "mig.toml"))


_SUITE = SimpleNamespace(left_out="")


def bench(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    here = platforms.load()["quartz"].signature
    patch.setattr("berth.plugin.cli.pilot.bench.build_suite", lambda: _SUITE)
    patch.setattr("berth.plugin.cli.pilot.bench.measure_signature", lambda *_, **_more: here)


def own_platforms(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("BERTH_PLATFORMS", str(folder / "platforms"))


def spool(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """One profile waits to be collected, and a file that is none."""
    made = folder / "spool"
    made.mkdir(exist_ok=True)
    made.chmod(0o1733)
    (made / "one.json").write_text(to_json(profile("collected")))


def to_remove(_patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A workload that nobody needs."""
    store = Store.open(str(folder / "store.db"))
    document = to_json(profile("gone"))
    store.add(WorkloadRecord("gone", "program", "sha256:1", document, "", 1.0))
    store.close()


def daemon(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """What one answered that had decided a job."""
    with harbour() as site:
        put(site.store(), forecast("stream"))
        running = site.start()
        running.decide(queue="auto", comment="berth:stream")
        answer = running.stats()
    patch.setattr("berth.plugin.daemon.client.ask", lambda *_: answer)
