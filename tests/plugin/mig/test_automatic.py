"""Re-cutting by itself: off by default, patient, and never at the cost of what runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from every_kind import workloads
from fake_nvml import FakeFleet
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.documents import to_json
from berth.plugin.cli import main
from berth.plugin.mig.automatic import Thought, think
from berth.plugin.mig.journal import ApplyJournal, applier_lock
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import TriggerSettings
from berth.plugin.slurm.mig.queue import MAX_SLICES, pending
from berth.policies.mig import GpuInstance, lookup
from berth.policies.mig.demands import Demand, SliceOption

RULES = TriggerSettings(enabled=True, min_dwell_s=600, min_gain=0.5)
SMALL = (Demand("small", (SliceOption("1g.5gb"),), count=4),)
JOBS = {"schema": "berth.mig-jobs/1", "jobs": [
    {"name": "small", "count": 4, "slices": [{"profile": "1g.5gb"}]}]}  # fmt: skip


def thought(
    demands: tuple[Demand, ...], *, last: float | None = None, held: tuple[GpuInstance, ...] = ()
) -> Thought:
    with Nvml() as nvml:
        gpus = nvml.read()
    given_out = {(gpus[0].uuid, instance) for instance in held}
    return think(gpus, given_out, demands, RULES, now_s=10_000.0, last_cut_s=last)


def test_it_cuts_what_is_free_for_what_waits(fleet: FakeFleet) -> None:
    fleet.fill(0, [("3g.20gb", 4), ("4g.20gb", 0)])
    fleet.start_process(0, 4, 1)
    found = thought(SMALL)
    assert found.verdict.recut
    assert found.target is not None
    (layout,) = found.target.layouts.values()
    assert GpuInstance(4, "3g.20gb") in layout.instances
    assert layout.counts()["1g.5gb"] == 4


def test_a_slice_given_to_a_job_stays_though_idle(fleet: FakeFleet) -> None:
    fleet.fill(0, [("3g.20gb", 4), ("4g.20gb", 0)])
    held = (GpuInstance(4, "3g.20gb"), GpuInstance(0, "4g.20gb"))
    assert thought(SMALL, held=held).target is None


@pytest.mark.parametrize(
    ("last", "recut"),
    [(9_900.0, False), (9_000.0, True), (None, True), (10_100.0, False), (4e9, True)],
)
def test_a_layout_stays_for_its_dwell_time(
    fleet: FakeFleet, last: float | None, recut: bool
) -> None:
    fleet.fill(0, [("7g.40gb", 0)])
    assert thought(SMALL, last=last).verdict.recut is recut


def test_a_small_gain_is_not_worth_it(fleet: FakeFleet) -> None:
    fleet.fill(0, [("1g.5gb", n) for n in range(3)] + [("3g.20gb", 4)])
    found = thought(SMALL)
    assert not found.verdict.recut
    assert "less than 50 %" in found.verdict.reason


def test_where_nobody_waits_or_no_layout_has_room_nothing_is_cut(fleet: FakeFleet) -> None:
    assert thought(()).target is None
    fleet.fill(0, [("7g.40gb", 0)])
    fleet.start_process(0, 0, 1)
    assert "no other layout has room for 4 more jobs" in thought(SMALL).verdict.reason


class Site:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.jobs = folder / "jobs.json"
        self.jobs.write_text(json.dumps(JOBS))

    def trigger(self, text: str) -> None:
        config = f'schema = "berth.mig/1"\nstate_dir = "{self.folder}/state"\n[trigger]\n{text}\n'
        (self.folder / "mig.toml").write_text(config)

    def auto(self, *words: str) -> str:
        main(["mig", "auto", "--jobs", str(self.jobs), *words])
        return self._capsys.readouterr().out


@pytest.fixture
def site(
    state_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Site:
    monkeypatch.setenv("BERTH_MIG_CONFIG", str(state_folder / "mig.toml"))
    return Site(state_folder, capsys)


def test_a_timer_does_nothing_until_the_site_switches_it_on(site: Site, fleet: FakeFleet) -> None:
    fleet.fill(0, [("7g.40gb", 0)])
    look = fleet.layout()
    site.trigger("")
    assert "automatic re-cutting is off" in site.auto("--yes", "--triggered")
    assert fleet.layout() == look


def test_switched_on_it_cuts_once_and_then_waits(site: Site, fleet: FakeFleet) -> None:
    fleet.fill(0, [("7g.40gb", 0)])
    site.trigger("enabled = true\nmin_dwell_s = 600")
    assert "--yes does it" in site.auto("--triggered")
    assert "Re-cut" in site.auto("--yes", "--triggered")
    assert [s.profile for s in fleet.seen()].count("1g.5gb") >= 4
    last = ApplyJournal(site.folder / "state").last_cut_s()
    assert last is not None
    assert abs(time.time() - last) < 60
    again = json.loads(site.auto("--yes", "--triggered", "--json"))
    assert again["recut"] is False


def test_without_mig_and_after_an_interrupted_apply_it_says_so(
    site: Site, fleet: FakeFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    site.trigger("enabled = true")
    fleet.reset("a100-40", mig=False)
    assert "no GPU has MIG on" in site.auto("--yes")
    fleet.reset("a100-40")
    (site.folder / "state").mkdir()
    ApplyJournal(site.folder / "state").begin({"id": "a", "old": {}, "new": {}, "notice": {}})
    assert "`berth mig apply --resume` ends it" in site.auto()
    main(["mig", "show", "--here"])
    assert "berth mig apply --resume" in capsys.readouterr().out
    with applier_lock(site.folder / "state"):
        assert "another apply is under way" in site.auto("--yes")


SQUEUE = """\
11|Resources|1|1|gres:gpu:1g.5gb:2|N/A|N/A|N/A|
12_3|Priority|2|2|gres/gpu:1g.5gb:1,gres/gpu:3g.20gb=1|N/A|N/A|N/A|
13|Dependency|1|1|gres:gpu:1g.5gb:4|N/A|N/A|N/A|
14|JobHeldUser|1|1|gres:gpu:1g.5gb:4|N/A|N/A|N/A|
15|None|1|1|gres:gpu:h200:4|N/A|N/A|N/A|
16|None|1|1|gres:gpu:2|N/A|N/A|N/A|
17|None|1|1|N/A|N/A|N/A|N/A|
18|None|١|1|gres:gpu:1g.5gb:1|N/A|N/A|N/A|
odd line
"""


def test_demands_are_what_waits_for_room() -> None:
    found = pending({"1g.5gb", "3g.20gb"}, command=lambda _: SQUEUE)
    assert {d.name: d.count for d in found} == {"1g.5gb": 4, "3g.20gb": 2}
    named = pending(
        {"1g.5gb"},
        "a100_{profile}",
        command=lambda _: "1|None|1|1|gres:gpu:a100_1g.5gb:1|N/A|N/A|N/A|\n",
    )
    assert [(d.name, d.count) for d in named] == [("1g.5gb", 1)]


@pytest.mark.parametrize(
    ("forms", "slices"),
    [
        ("N/A|gres:gpu:1g.5gb:3|N/A|N/A", 3),
        ("N/A|N/A|gres:gpu:1g.5gb:1|N/A", 8),
        ("N/A|N/A|N/A|gres/gpu:1g.5gb:1", 2),
        ("gres:gpu:1g.5gb:2|gres:gpu:1g.5gb:4|N/A|N/A", 4),
        ("gres:gpu:1g.5gb:9999|N/A|gres:gpu:1g.5gb:9999|N/A", MAX_SLICES),
    ],
)
def test_slices_count_in_whatever_form_they_are_asked_for(forms: str, slices: int) -> None:
    """The submit filter itself makes ``--gpus=1g.5gb:1`` of ``--gpus=1``."""
    text = f"11|Resources|2|8|{forms}|\n"
    assert [d.count for d in pending({"1g.5gb"}, command=lambda _: text)] == [slices]


@given(st.text(max_size=300))
def test_any_answer_of_squeue_is_read_without_failing(text: str) -> None:
    pending({"1g.5gb"}, command=lambda _: text)


@pytest.mark.parametrize(
    ("name", "count", "least_gib"),
    [("inference", 7, 4.5), ("training", 3, 4.5), ("service", 2, 19)],
)
def test_workloads_that_were_never_run_steer_a_recut(
    site: Site, fleet: FakeFleet, name: str, count: int, least_gib: float
) -> None:
    """A model graph, a training step and a language model, by file; each job gets a slice."""
    fleet.fill(0, [("7g.40gb", 0)])
    site.trigger("enabled = true")
    document = workloads("epyc-genoa-vm", "a100-40gb", "A100-40GB")[name].document
    file = site.folder / f"{name}.json"
    file.write_text(to_json(document))
    site.jobs.write_text(
        json.dumps(
            {"schema": "berth.mig-jobs/1", "jobs": [{"workload": str(file), "count": count}]}
        )
    )
    assert "Re-cut" in site.auto("--yes")
    made = [slice_.profile for slice_ in fleet.seen()]
    geometry = lookup("A100-40GB")
    enough = [p for p in made if geometry.profile(p).memory_bytes >= least_gib * 2**30]
    assert len(enough) >= count
