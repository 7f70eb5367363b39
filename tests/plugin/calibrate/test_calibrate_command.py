"""``berth site calibrate``: what it costs, what it makes, what it says when something is wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from calibration import (
    CLUSTER,
    WITH_GPU,
    FakeScheduler,
    facts,
    gpu_measurement,
    link,
    measurement,
    node,
    write_site,
)
from click.testing import CliRunner, Result
from toy_profiles import profile as toy_profile

from berth.pilot.documents import write_json
from berth.pilot.errors import BerthError
from berth.pilot.gpu.suite_kernels import KERNELS
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import NodeMeasurement
from berth.pilot.profile import Machine
from berth.pilot.run import Run
from berth.plugin.calibrate import jobs
from berth.plugin.calibrate.kinds import CalibratedKind, chosen_nodes
from berth.plugin.calibrate.state import check_calibration
from berth.plugin.cli.site.calibrate import calibrate as command
from berth.plugin.doctor.bundles import check_bundles, check_candidates
from berth.plugin.findings import Status
from berth.plugin.scheduler import ClusterFacts, NodeFacts, NodeJob
from berth.plugin.site.load import load_site
from berth.plugin.store import Store, WorkloadRecord
from berth.policies.values import Candidate
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.bundle import load
from berth.predictor.hardware import platforms

ROME = "rome-7742"
FACTORS = {"f1": 1.0, "f2": 1.02, "s1": 1.7}


def usual(job: NodeJob) -> NodeMeasurement | None:
    if job.queue == "gpu":
        return gpu_measurement(job.node, job.script.parent.name, 1.3)
    return measurement(job.node, job.script.parent.name, FACTORS[job.node])


@pytest.fixture
def calibrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command at a made-up site with the given scheduler."""
    write_site(tmp_path)
    monkeypatch.setattr(jobs, "POLL_S", (0.001, 0.001))

    def run(scheduler: FakeScheduler, *words: str) -> Result:
        monkeypatch.setattr("berth.plugin.scheduler.registry.scheduler_named", lambda *_: scheduler)
        site = str(tmp_path / "berth.toml")
        links = [] if "--links" in words else ["--no-links"]
        return CliRunner().invoke(command, ["--site", site, *links, *words])

    return run


def test_a_dry_run_says_the_cost_and_does_nothing(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    scheduler = FakeScheduler(usual)
    said = calibrate(scheduler, "--dry-run").output
    assert "3 nodes of 2 kinds" in said
    assert "8 node-minutes" in said
    assert "f1, f2" in said
    assert scheduler.submissions == 0
    assert not (tmp_path / "calibration").exists()


def test_every_kind_is_measured_learnt_and_installed(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    said = calibrate(FakeScheduler(usual)).output
    site = load_site(tmp_path / "berth.toml")
    (bundle,) = site.bundles
    labelled = {entry.platform: entry for entry in load(bundle).manifest.labelled}
    assert {"quick", ROME} <= labelled.keys()
    assert labelled[ROME].reference == "quick"
    assert site.platforms["quick"].price_per_hour == 2.5
    assert site.platforms[ROME].cores == site.platforms["quick"].cores
    row = next(x.split() for x in said.splitlines() if x.startswith(f"{ROME} ") and "x " in x)
    assert float(row[4].rstrip("x")) < 2.6
    assert row[5] == Basis.CALIBRATED.value
    assert "The filter can act on: fast, slow" in said
    assert "p100-16gb (gpu) is known by its data sheet only" in said


def test_a_gpus_job_asks_for_the_gpu_and_measures_it(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    def runs(job: NodeJob) -> NodeMeasurement | None:
        if job.queue == "gpu":
            return usual(job)
        kind = job.script.parent.name
        return measurement(job.node, kind, FACTORS[job.node], kernels=200)

    scheduler = FakeScheduler(runs, cluster=WITH_GPU)
    said = calibrate(scheduler).output
    (job,) = [job for job in scheduler.jobs.values() if job.queue == "gpu"]
    assert job.gres == "gpu:p100:1"
    assert job.script.read_text().rstrip().endswith("--gpu")
    assert all(job.gres is None for job in scheduler.jobs.values() if job.queue != "gpu")
    (bundle,) = load_site(tmp_path / "berth.toml").bundles
    (entry,) = [e for e in load(bundle).manifest.labelled if e.platform == "p100-16gb"]
    assert (entry.gpus, entry.kernels, entry.reference) == (1, len(KERNELS), "quick")
    assert entry.prior.bias == pytest.approx(math.log(1.3), abs=0.25)
    assert "known by its data sheet only" not in said


def test_stored_workloads_are_predicted_again(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    with (tmp_path / "berth.toml").open("a") as site_file:
        site_file.write(f'\n[daemon]\nstore = "sqlite:///{tmp_path}/berth.db"\n')
    store = Store.open(f"sqlite:///{tmp_path}/berth.db")
    document = toy_profile("app").model_dump_json(by_alias=True)
    store.add(WorkloadRecord("app", "program", "d", document, "", 1.0))
    store.close()
    assert "1 stored workloads were predicted again.\n" in calibrate(FakeScheduler(usual)).output


def test_gpus_alone_are_not_learnt_from(calibrate: Callable[..., Result]) -> None:
    said = calibrate(FakeScheduler(usual, cluster=WITH_GPU), "--kind", "gpu")
    assert said.exit_code == 1
    assert "only GPUs were measured" in str(said.exception)


def test_the_site_files_other_lines_stay(calibrate: Callable[..., Result], tmp_path: Path) -> None:
    before = (tmp_path / "berth.toml").read_text()
    calibrate(FakeScheduler(usual))
    calibrate(FakeScheduler(usual))
    after = (tmp_path / "berth.toml").read_text()
    assert [x for x in before.splitlines() if x not in after.splitlines()] == []
    assert after.count("[predictor]") == 1
    assert len(list((tmp_path / "bundles").iterdir())) == 1


def closed(*queues: str, word: str = "INACTIVE: takes no jobs and starts none") -> ClusterFacts:
    """The cluster with these queues not up."""
    changed = {q: replace(CLUSTER.queues[q], up=False, closed=word) for q in queues}
    return replace(CLUSTER, queues={**CLUSTER.queues, **changed})


def test_nothing_is_submitted_to_a_partition_that_starts_no_jobs(
    calibrate: Callable[..., Result],
) -> None:
    scheduler = FakeScheduler(usual, cluster=closed("slow"))
    said = calibrate(scheduler).output
    assert f"{ROME} (1 node): slow is INACTIVE: takes no jobs and starts none" in said
    assert {job.queue for job in scheduler.jobs.values()} == {"fast"}
    assert "3 nodes" not in said


def test_nothing_is_submitted_to_a_partition_whose_jobs_are_shorter(
    calibrate: Callable[..., Result],
) -> None:
    short = replace(CLUSTER.queues["slow"], max_time_s=900.0)
    cluster = replace(CLUSTER, queues={**CLUSTER.queues, "slow": short})
    scheduler = FakeScheduler(usual, cluster=cluster)
    said = calibrate(scheduler).output
    assert "jobs in slow take at most 15m 00s: give a shorter --time-limit than 30m 00s" in said
    assert {job.queue for job in scheduler.jobs.values()} == {"fast"}
    assert calibrate(scheduler, "--time-limit", "15m").exit_code == 0
    assert {job.queue for job in scheduler.jobs.values()} == {"fast", "slow"}
    lifted = calibrate(FakeScheduler(usual, cluster=cluster), "--qos", "long").output
    assert "at most" not in lifted.partition(ROME)[2].partition("\n")[0], "a QOS may lift limits"


def test_a_node_is_reached_by_the_partition_that_starts_jobs() -> None:
    site_places = (
        Candidate(name="a", platform="quick", queue="fast"),
        Candidate(name="b", platform="quick", queue="slow"),
    )
    both = facts(node("n1", "fast", queues=("fast", "slow")))
    one = replace(both, queues={**both.queues, "fast": replace(both.queues["fast"], up=False)})
    kind = CalibratedKind(platforms.load()["rome-7742"], site_places, both.nodes)
    assert [p.name for p in kind.candidates_of(["n1"], both, 60.0)] == ["a", "b"]
    assert [p.name for p in kind.candidates_of(["n1"], one, 60.0)] == ["b"]
    assert [n.name for n in chosen_nodes(kind, one, 3, 60.0)] == ["n1"]


def test_a_second_call_measures_nothing_twice(calibrate: Callable[..., Result]) -> None:
    scheduler = FakeScheduler(usual)
    first, second = calibrate(scheduler), calibrate(scheduler)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert scheduler.submissions == 3
    assert "Nothing is left to measure" in second.output


def test_interrupted_it_goes_on_where_it_stopped(calibrate: Callable[..., Result]) -> None:
    scheduler = FakeScheduler(usual, waiting=("s1",))
    cut = calibrate(scheduler, "--wait", "0.3s")
    assert f"Job 3 still waits for s1 ({ROME})" in cut.output
    assert f"Missing: {ROME} (slow) was not measured" in cut.output
    scheduler._waiting = ()
    done = calibrate(scheduler)
    assert scheduler.submissions == 3
    assert "calibrated  slow" in done.output


def test_what_is_submitted_already_is_not_said_to_be_measured_again(
    calibrate: Callable[..., Result],
) -> None:
    scheduler = FakeScheduler(usual, waiting=("s1",))
    calibrate(scheduler, "--wait", "0.3s")
    said = calibrate(scheduler, "--dry-run").output
    assert "Nothing more is left to submit." in said
    assert f"{ROME} (1 node): submitted: s1 (job 3)" in said
    assert "to measure" not in said


def test_a_time_limit_that_is_too_short_is_said_before_the_jobs_run(
    calibrate: Callable[..., Result],
) -> None:
    said = calibrate(FakeScheduler(usual), "--dry-run", "--time-limit", "1m").output
    assert "CHECK --time-limit: jobs of 60 s end" in said
    assert "CHECK" not in calibrate(FakeScheduler(usual), "--dry-run").output


def test_ctrl_c_leaves_the_jobs_and_says_so(
    calibrate: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = FakeScheduler(usual, waiting=("f1", "f2", "s1"))
    monkeypatch.setattr(jobs.time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    result = calibrate(scheduler)
    assert isinstance(result.exception, BerthError)
    assert "nothing is submitted twice" in (result.exception.hint or "")
    monkeypatch.undo()


def half(job: NodeJob) -> NodeMeasurement | None:
    """The suite does not build on one kind of nodes."""
    if job.node != "s1":
        return usual(job)
    return NodeMeasurement(node="s1", problems=("the kernels could not be built: cc failed",))


def dies(job: NodeJob) -> NodeMeasurement | None:
    """One job leaves a log and nothing else."""
    return None if job.node == "f2" else usual(job)


def apart(job: NodeJob) -> NodeMeasurement | None:
    """One node is slower than the other of its kind."""
    return measurement(job.node, job.script.parent.name, 1.5 if job.node == "f2" else 1.0)


def few(job: NodeJob) -> NodeMeasurement | None:
    """Five kernels of the suite ran."""
    return measurement(job.node, job.script.parent.name, 1.0, kernels=5)


@pytest.mark.parametrize(
    ("runs", "sentences"),
    [
        (half, [rf"s1 \({ROME}\) was not measured: the kernels could not be built: cc failed\.",
                "quick", rf"Missing: {ROME} \(slow\) was not measured\."]),
        (dies, [r"f2 \(quick\) was not measured: job \d+ \(failed\): cc: error"]),
        (apart, [r"CHECK quick: its nodes differ: f\d takes \d\.\d\d times"]),
        (few, [f"CHECK {ROME}: only 5 kernels ran"]),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_a_node_is_named(
    calibrate: Callable[..., Result],
    runs: Callable[[NodeJob], NodeMeasurement | None],
    sentences: list[str],
) -> None:
    said = calibrate(FakeScheduler(runs)).output
    assert all(re.search(sentence, said) for sentence in sentences), said


F1, F2 = CLUSTER.nodes[:2]


@pytest.mark.parametrize(
    ("nodes", "options", "sentences"),
    [
        ((F1, F2, node("s1", "slow", usable=False)), (),
         [f"{ROME} (1 node): none of its nodes works now"]),
        ((F1, F2, node("s1", "slow", idle_cores=0)), ("--dry-run",),
         ["no node of it is free now: its jobs wait in the queue"]),
        ((F1, replace(F2, idle_cores=0), *CLUSTER.nodes[2:]), ("--links", "--dry-run"),
         ["no two nodes of it are free now: what connects them is not measured",
          "3 nodes of 2 kinds"]),
    ],
)  # fmt: skip
def test_nodes_that_cannot_be_measured_now_are_named(
    calibrate: Callable[..., Result],
    nodes: tuple[NodeFacts, ...],
    options: tuple[str, ...],
    sentences: list[str],
) -> None:
    said = calibrate(FakeScheduler(usual, cluster=facts(*nodes)), *options).output
    assert all(sentence in said for sentence in sentences), said


def test_a_closed_partition_is_one_sentence(calibrate: Callable[..., Result]) -> None:
    said = calibrate(FakeScheduler(usual, closed=("slow",))).output
    assert f"s1 ({ROME}) was not measured: partition slow: sbatch failed" in said
    assert "calibrated" not in said.split("slow", 1)[0] or "measured" in said


def test_a_calibration_older_than_the_kernel_is_made_again(
    calibrate: Callable[..., Result],
) -> None:
    scheduler = FakeScheduler(usual)
    calibrate(scheduler)
    newer = node("s1", "slow", system="Linux 6.1.0-20-amd64")
    scheduler._cluster = facts(*CLUSTER.nodes[:2], newer)
    said = calibrate(scheduler, "--dry-run").output
    assert "s1 was measured under Linux 6.1.0-18-amd64 and runs Linux 6.1.0-20-amd64 now" in said
    assert "1 node of 1 kind," in said


def test_a_calibration_older_than_the_gpus_driver_is_said_and_made_again(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    def with_gpus(job: NodeJob) -> NodeMeasurement | None:
        found = usual(job)
        assert found is not None
        return found.model_copy(update={"host": f"{job.node}.site", "driver": "535.54"})

    with (tmp_path / "berth.toml").open("a") as site_file:
        site_file.write(f'\n[daemon]\nstore = "sqlite:///{tmp_path}/berth.db"\n')
    scheduler = FakeScheduler(with_gpus)
    calibrate(scheduler)
    site = load_site(tmp_path / "berth.toml")
    assert not list(check_calibration(site, lambda: scheduler))
    profile = toy_profile("app")
    there = Machine(host="s1.site", gpu_driver="550.90")
    document = profile.model_copy(update={"machine": there}).model_dump_json(by_alias=True)
    store = Store.open(site.daemon.store)
    store.add(WorkloadRecord("app", "program", "d", document, "", 1.0))
    store.close()
    told = "s1 was measured with GPU driver 535.54 and has 550.90 now"
    assert told in calibrate(scheduler, "--dry-run").output
    (finding,) = check_calibration(site, lambda: scheduler)
    assert (finding.status, finding.text) == (Status.WARN, told)


def test_a_damaged_bundle_is_installed_again(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    calibrate(FakeScheduler(usual))
    (bundle,) = load_site(tmp_path / "berth.toml").bundles
    (bundle / "range.json").unlink()
    assert calibrate(FakeScheduler(usual)).exit_code == 0
    (bundle,) = load_site(tmp_path / "berth.toml").bundles
    assert load(bundle).manifest.id


def test_an_unknown_kind_and_an_unreadable_state_are_one_sentence(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    wrong = calibrate(FakeScheduler(usual), "--kind", "milan")
    assert isinstance(wrong.exception, BerthError)
    assert "milan" in wrong.exception.message
    assert f"{ROME} (places: slow)" in (wrong.exception.hint or "")
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "calibration.json").write_text("{")
    broken = calibrate(FakeScheduler(usual))
    assert isinstance(broken.exception, BerthError)
    (tmp_path / "calibration" / "calibration.json").write_text(json.dumps({"schema": "x/1"}))
    assert isinstance(calibrate(FakeScheduler(usual)).exception, BerthError)


def test_two_depths_at_once_are_refused(calibrate: Callable[..., Result]) -> None:
    found = calibrate(FakeScheduler(usual), "--quick", "--full")
    assert isinstance(found.exception, BerthError)
    assert "--quick and --full" in found.exception.message


def test_one_kind_by_the_name_of_its_place(calibrate: Callable[..., Result]) -> None:
    scheduler = FakeScheduler(usual)
    calibrate(scheduler, "--kind", "slow")
    assert {job.node for job in scheduler.jobs.values()} == {"s1"}


def test_doctor_names_stubs_places_never_acted_on_and_old_measurements(
    calibrate: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = FakeScheduler(usual)
    monkeypatch.setattr("berth.plugin.scheduler.registry.scheduler_named", lambda *_: scheduler)
    before = [f.text for f in check_candidates(load_site(tmp_path / "berth.toml"))]
    assert any(text.startswith("quick is a stub") for text in before)
    assert any(text.startswith("slow: no program goes there") for text in before)
    calibrate(scheduler)
    site = load_site(tmp_path / "berth.toml")
    assert {f.status for f in check_candidates(site)} == {Status.OK}, "the advice cured it"
    assert not list(check_calibration(site, lambda: scheduler))
    scheduler._cluster = facts(node("s1", "slow", system="Linux 7.0"))
    assert [f.text for f in check_calibration(site, lambda: scheduler)] == [
        "s1 was measured under Linux 6.1.0-18-amd64 and runs Linux 7.0 now"
    ]


def test_a_half_installed_bundle_is_named_with_what_to_do(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    calibrate(FakeScheduler(usual))
    site = load_site(tmp_path / "berth.toml")
    (site.bundles[0] / "range.json").unlink()
    (found,) = [f for f in check_bundles(site) if f.status is Status.FAIL]
    assert "berth site calibrate" in (found.advice or "")


def with_links(job: NodeJob) -> NodeMeasurement | LinkMeasurement | None:
    return usual(job) if job.second_node is None else link(job)


def test_what_connects_two_free_nodes_is_measured_and_in_the_platform(
    calibrate: Callable[..., Result], tmp_path: Path
) -> None:
    scheduler = FakeScheduler(with_links)
    said = calibrate(scheduler, "--links").output
    assert "And what connects two nodes of 1 kind, both alone for about 1 min: 2 node" in said
    assert "quick: between f1 and f2: 2 us, 10 GB/s (MPI: Open MPI v4.1.4)." in said
    (pair,) = [job for job in scheduler.jobs.values() if job.second_node is not None]
    assert (pair.node, pair.second_node) == ("f1", "f2")
    script = pair.script.read_text()
    assert "pilot link --nodes f1,f2" in script
    assert "--ntasks-per-node={each}" in script
    site = load_site(tmp_path / "berth.toml")
    connected = site.platforms["quick"].interconnect
    assert connected is not None
    assert connected.latency_s == 2e-6
    assert site.platforms[ROME].interconnect is None
    again = calibrate(scheduler, "--links").output
    assert "Nothing is left to measure" in again
    assert scheduler.submissions == 4


def test_a_link_job_that_waits_is_followed_and_not_submitted_twice(
    calibrate: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = FakeScheduler(with_links)
    monkeypatch.setattr(FakeScheduler, "_outcome", waiting_pairs)
    said = calibrate(scheduler, "--links", "--wait", "0.2s").output
    assert re.search(r"Job \d still waits for f1,f2 \(quick\)", said)
    monkeypatch.undo()
    done = calibrate(scheduler, "--links").output
    assert "between f1 and f2: 2 us" in done
    assert scheduler.submissions == 4


def waiting_pairs(scheduler: FakeScheduler, job_id: str) -> Run:
    job = scheduler.jobs[job_id]
    if job.second_node is not None:
        return Run("", job_id, state="pending", partition=job.queue, elapsed_s=0.0)
    result = with_links(job)
    assert result is not None
    write_json(job.script.with_suffix(".json"), result)
    return Run("", job_id, state="completed", partition=job.queue, elapsed_s=1.0)


def test_a_link_that_was_measured_over_tcp_or_not_at_all_is_said(
    calibrate: Callable[..., Result],
) -> None:
    def over_tcp(job: NodeJob) -> NodeMeasurement | LinkMeasurement | None:
        if job.second_node is None:
            return usual(job)
        return link(job, without_mpi="there is no mpicc")

    def fails(job: NodeJob) -> NodeMeasurement | LinkMeasurement | None:
        if job.second_node is None:
            return usual(job)
        return link(job, complete=False, interconnect=None, problems=("nothing came",))

    said = calibrate(FakeScheduler(fails), "--links").output
    assert "f1,f2 (quick) was not measured: nothing came." in said
    assert "The filter can act on: fast, slow" in said
    said = calibrate(FakeScheduler(over_tcp), "--links").output
    assert "CHECK quick: measured over TCP" in said
    assert "there is no mpicc" in said
