"""Jobs that nobody piloted are placed by the ratio between kinds that the accounting shows."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from berth.pilot.run import Run
from berth.plugin.daemon.app import view
from berth.plugin.daemon.record import Answered
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.matching import is_unknown_program, unknown_program, workload_key
from berth.plugin.history.workloads import add_unknown_programs, make_workloads
from berth.plugin.right_sizing.needs import learn_needs
from berth.plugin.site.load import load_site
from berth.plugin.store import PlacedRun, Store
from berth.policies.codes import Ground
from berth.policies.values import CandidateState
from berth.policies.waits import WaitTable
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.hardware import platforms as known_platforms

RATIO = 1.6
SITE = """schema = "berth.site/1"
mode = "enforce"
[site]
name = "lab"
auto_partition = "auto"
[daemon]
socket = "berth.sock"
store = "sqlite:///{folder}/store.db"
kill_switch = "off"
scheduler_users = ["root"]
[[candidates]]
name = "old"
platform = "quartz"
partition = "old"
cores_per_node = 64
memory_per_node = "256G"
nodes = 8
[[candidates]]
name = "new"
platform = "rome-7742"
partition = "new"
cores_per_node = 64
memory_per_node = "256G"
nodes = 8
"""


def jobs(user: str, queues: str, *, count: int = 12, ratio: float = RATIO) -> Iterator[Run]:
    """One user's jobs, by turns in these partitions; their times vary by a factor of five."""
    rng = random.Random(user)  # noqa: S311
    places = queues.split(",")
    for number in range(12):
        queue = places[number % len(places)]
        elapsed_s = round(900 * math.exp(rng.gauss(0, 1.0 if number % 5 == 0 else 0.05)))
        elapsed_s = int(elapsed_s * (ratio if queue == "old" else 1.0))
        end_s = time.time() - 86_400.0 + 3000.0 * number
        yield Run(
            cluster="lab", job_id=f"{user}{number}", user=user, state="completed",
            submit_s=end_s - elapsed_s - 5, start_s=end_s - elapsed_s, end_s=end_s,
            elapsed_s=elapsed_s, cores=16, name="solve.sh", partition=queue, time_limit_s=7200.0,
            request_bytes=2**36, account="phys",
        )  # fmt: skip


class Lab:
    """A site of two kinds with imported jobs, and its daemon's answers."""

    def __init__(self, folder: Path, *past: Iterator[Run], more: str = "") -> None:
        (folder / "berth.toml").write_text(SITE.format(folder=folder) + more)
        self.site = load_site(folder / "berth.toml")
        self.store = Store.open(self.site.daemon.store)
        self.store.past_jobs.put([job for each in past for job in each])
        self.refresh()

    def refresh(self) -> None:
        make_workloads(
            self.store, self.site,
            forecaster=forecaster_for(self.site), platforms=platforms_for(self.site),
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        self.answered: list[Answered] = []
        self.service = Service(view(self.site), self.answered.append)
        self.service.shelf = Shelf().updated(self.store.changes_since(0))
        now_s = time.time()
        states = {n: CandidateState(True, 512, 0, 0, now_s, 8) for n in ("old", "new")}
        self.service.snapshot = Snapshot(MappingProxyType(states), now_s, time.monotonic())

    def submit(self, user: str, **changes: Any) -> tuple[str, str, str]:
        """Return the partitions, the code and the reason for a job of ``auto``."""
        job = {
            "user": user, "account": "phys", "name": "solve.sh", "queue": "auto",
            "queues": ["auto", "old", "new"], "kind": "batch", "tasks": 16, "cpus_per_task": 1,
            "memory_mib_per_cpu": 1000, "time_limit_min": 120, **changes,
        }  # fmt: skip
        line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": job}).encode()
        reply = json.loads(self.service.handle(line))
        return reply.get("edits", {}).get("queue", ""), reply["code"], self.answered[-1].reason

    def forecast(self, user: str) -> Forecast:
        self.submit(user)
        workload = self.answered[-1].request.workload
        assert workload is not None
        forecast = self.service.shelf.forecast(workload, user)
        assert forecast is not None
        return forecast


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Eight users whose programs ran on both kinds, one whose programs ran on the old kind only."""
    return Lab(tmp_path, *(jobs(f"u{n}", "old,new") for n in range(8)), jobs("ada", "old"))


def test_a_program_of_one_kind_is_predicted_on_the_other_by_the_sites_ratio(lab: Lab) -> None:
    forecast = lab.forecast("ada")
    assert forecast.curves["rome-7742"].points[0].basis is Basis.LEARNED
    assert forecast.curves["quartz"].points[0].basis is Basis.MEASURED
    ratio = forecast.ratio("rome-7742", 16, "quartz", 16)
    assert ratio is not None
    assert ratio.low < RATIO < ratio.high
    assert ratio.high / ratio.low < 1.6
    assert "history: ratio of the kinds" in forecast.source_of("rome-7742")


def test_a_program_of_both_kinds_goes_to_the_faster_however_wide_its_time(lab: Lab) -> None:
    queue, code, _ = lab.submit("u1")
    assert queue.split(",")[0] == "new"
    assert code in ("placed", "fits", "fits-one")


def test_an_unknown_program_gets_the_list_in_order_of_the_sites_ratio(tmp_path: Path) -> None:
    fast_old = Lab(tmp_path, *(jobs(f"u{n}", "old,new", ratio=0.5) for n in range(8)))
    queue, code, reason = fast_old.submit("eve", name="other.sh")
    assert (queue, code) == ("old,new", "fits")
    assert "fastest comes first" in reason
    assert is_unknown_program(fast_old.answered[-1].request.workload or "")


def test_jobs_with_gpus_are_not_taken_for_unknown_programs_of_cpus(lab: Lab) -> None:
    lab.submit("eve", name="other.sh", gres="gpu:1", gpus=1)
    assert lab.answered[-1].request.workload is None


def test_without_programs_of_both_kinds_no_kind_is_left_out(tmp_path: Path) -> None:
    one_kind = Lab(tmp_path, *(jobs(f"u{n}", "old") for n in range(4)))
    queue, code, _ = one_kind.submit("u1")
    assert (sorted(queue.split(",")), code) == (["new", "old"], "fits")


def test_memory_of_unknown_programs_is_no_need_of_other_programs(lab: Lab) -> None:
    now_s = time.time()
    lab.store.outcomes.put(
        [
            PlacedRun(
                cluster="lab", job_id=f"9{n}", decision=None, state="completed", user="eve",
                workload=unknown_program(uses_gpus=False), start_s=now_s - 60, end_s=now_s - 30,
                elapsed_s=30.0, peak_bytes=2**30,
            )
            for n in range(5)
        ]
    )  # fmt: skip
    learn_needs(lab.store, now_s)
    key = workload_key("eve", unknown_program(uses_gpus=False))
    assert key not in {need.digest for need in lab.store.changes_since(0).memory_needs}


def test_importing_again_without_ratios_drops_no_workload(lab: Lab) -> None:
    names = set(lab.store.names())
    lab.refresh()
    assert set(lab.store.names()) == names


def past(queue: str, *seconds: float, name: str = "job.sh", limit_min: float = 240, **more: Any):
    """Jobs of one user that ended an hour after one another, on one kind."""
    for number, elapsed_s in enumerate(seconds):
        end_s = time.time() - 86_400.0 + 3_600.0 * number
        values: dict[str, Any] = {
            "cluster": "lab", "job_id": f"{name}{queue}{limit_min}{number}", "user": "mia",
            "state": "completed", "submit_s": end_s - elapsed_s - 5, "start_s": end_s - elapsed_s,
            "end_s": end_s, "elapsed_s": elapsed_s, "cores": 16, "name": name, "account": "phys",
            "partition": queue, "time_limit_s": 60.0 * limit_min, "request_bytes": 2**34,
        }  # fmt: skip
        yield Run(**{**values, **more})


def site_of(folder: Path, *own: Iterator[Run]) -> Lab:
    """Six other users' programs take 1.6 times as long on the old kind."""
    return Lab(folder, *(jobs(f"u{n}", "old,new") for n in range(6)), *own)


SENT = {"name": "job.sh", "time_limit_min": 240}


def test_two_programs_of_one_name_are_told_apart_by_their_limit(tmp_path: Path) -> None:
    known = site_of(
        tmp_path, past("old", *[3_000.0] * 20), past("new", *[5_000.0] * 20),
        past("old", *[27_000.0] * 20, limit_min=900), past("new", *[9_000.0] * 20, limit_min=900),
    )  # fmt: skip
    queue, _, _ = known.submit("mia", **{**SENT, "time_limit_min": 900})
    assert queue.split(",")[0] == "new"


def test_a_kind_chosen_by_the_inputs_size_is_not_taken_for_a_faster_one(tmp_path: Path) -> None:
    known = site_of(tmp_path, past("old", *[800.0] * 20), past("new", *[2_500.0] * 20))
    assert known.submit("mia", **SENT)[0] == "new,old"


def test_a_kind_where_the_program_only_fails_is_left_out(tmp_path: Path) -> None:
    failed = past("old", *[2.0] * 6, state="failed")
    known = site_of(tmp_path, failed, past("new", *[3_000.0] * 20))
    assert known.submit("mia", **SENT)[0] == "new"
    decision = known.answered[-1].decision
    assert decision is not None
    assert {ranked.candidate: ranked.code for ranked in decision.ranked}["old"] == "fails-there"


def test_a_failed_run_says_nothing_of_the_time(tmp_path: Path) -> None:
    failed = past("old", *[2.0] * 3, state="failed")
    known = site_of(tmp_path, failed, past("new", *[3_000.0] * 20))
    known.submit("mia", **SENT)
    decision = known.answered[-1].decision
    assert decision is not None
    times = {ranked.candidate: ranked.runtime_s for ranked in decision.ranked}
    assert all(time is not None and time.mid > 2_000 for time in times.values())


def test_a_kind_that_became_slow_is_not_chosen_alone(tmp_path: Path) -> None:
    before = (past("old", *[4_800.0] * 20), past("new", *[3_000.0] * 20 + [15_000.0] * 10))
    known = site_of(tmp_path, *(before))
    assert "old" in known.submit("mia", **SENT)[0].split(",")


@pytest.mark.parametrize(("ratio", "queues"), [(1.7, "new,old"), (3.0, "new")])
def test_a_kind_is_left_out_for_a_program_that_loses_more_there_than_others(
    tmp_path: Path, ratio: float, queues: str
) -> None:
    own = past("old", *[ratio * 3_000.0] * 20), past("new", *[3_000.0] * 20)
    usual = (0.8, 1.2, 1.5, 1.7, 2.2, 3.0)
    others = (jobs(f"u{n}", "old,new", ratio=each) for n, each in enumerate(usual))
    known = Lab(tmp_path, *others, *own)
    assert known.submit("mia", **SENT)[0] == "new,old", "new has room: the job starts there"
    states = dict(known.service.snapshot.states)
    wait = WaitTable((1,), (1.0,), ((Interval(60.0, 60.0, 60.0),),))
    states["new"] = replace(states["new"], idle_cores=0, pending_jobs=1, waits=wait)
    known.service.snapshot = replace(known.service.snapshot, states=MappingProxyType(states))
    assert known.submit("mia", **SENT)[0] == queues


def test_two_of_eight_users_reorder_nobody_elses_list(tmp_path: Path) -> None:
    bad = (jobs(f"bad{n}", "old,new", ratio=0.02) for n in range(2))
    known = Lab(tmp_path, *(jobs(f"u{n}", "old,new") for n in range(6)), *bad)
    assert known.submit("eve", name="other.sh")[0] == "new,old"


def calibrated(folder: Path, **seconds: float) -> str:
    """Tables of platforms that ran 20 benchmark kernels, each in about so many seconds."""
    text = ""
    for name, each_s in seconds.items():
        platform = known_platforms.load()[name.replace("_", "-")]
        times = {f"k{n}@1000x1": each_s * math.exp(0.3 * math.sin(n)) for n in range(20)}
        signature = platform.signature.model_copy(update={"kernel_times_s": times})
        measured = platform.model_copy(update={"signature": signature})
        (folder / f"{platform.name}.json").write_text(measured.model_dump_json(by_alias=True))
        text += f'[[platforms]]\nname = "{platform.name}"\nfile = "{platform.name}.json"\n'
    return text


@pytest.mark.parametrize(("old_s", "first"), [(0.1, "old"), (0.9, "new")])
def test_on_day_one_kernels_order_the_list_and_why_says_so(
    tmp_path: Path, old_s: float, first: str
) -> None:
    day_one = Lab(tmp_path, more=calibrated(tmp_path, quartz=old_s, rome_7742=0.3))
    queue, code, reason = day_one.submit("eve")
    assert (queue.split(",")[0], len(queue.split(",")), code) == (first, 2, "fits")
    assert "fastest comes first" in reason
    assert day_one.answered[-1].decision.ground is Ground.KERNELS
    ratio = day_one.forecast("eve").ratio("rome-7742", 16, "quartz", 16)
    assert ratio is not None
    assert ratio.low < old_s / 0.3 < ratio.high
    assert 2.0 < ratio.high / ratio.low < 4.0


def test_calibrating_is_enough_where_no_job_has_ended_yet(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.submit("eve")
    assert lab.answered[-1].decision.ground is Ground.FIT
    with (tmp_path / "berth.toml").open("a") as site_file:
        site_file.write(calibrated(tmp_path, quartz=0.1, rome_7742=0.3))
    lab.site = load_site(tmp_path / "berth.toml")
    platforms = platforms_for(lab.site)
    add_unknown_programs(
        lab.store, lab.site, forecaster=forecaster_for(lab.site), platforms=platforms
    )
    lab.start()
    assert lab.submit("eve")[0] == "old,new"
    assert lab.answered[-1].decision.ground is Ground.KERNELS


def test_kernels_leave_no_kind_out_and_runs_on_both_kinds_replace_them(tmp_path: Path) -> None:
    platforms = calibrated(tmp_path, quartz=0.1, rome_7742=0.9)
    one_kind = Lab(tmp_path, *(jobs(f"u{n}", "old") for n in range(4)), more=platforms)
    queue, _, _ = one_kind.submit("u1")
    assert sorted(queue.split(",")) == ["new", "old"]
    prior = one_kind.forecast("u1").curves["rome-7742"].points[0]
    assert prior.basis is Basis.PRIOR
    both = [job for n in range(8) for job in jobs(f"v{n}", "old,new")]
    one_kind.store.past_jobs.put(both)
    one_kind.refresh()
    learnt = one_kind.forecast("u1")
    assert learnt.curves["rome-7742"].points[0].basis is Basis.LEARNED
    ratio = learnt.ratio("rome-7742", 16, "quartz", 16)
    assert ratio is not None
    assert ratio.low < RATIO < ratio.high
