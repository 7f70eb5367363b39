"""``berth pilot submit`` on a real Slurm: measured there, brought home, the real job placed."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_daemon import RealDaemon
from slurm_cluster import OTHER_USER, USER, Cluster, wait_until

from berth.pilot.documents import read_json
from berth.pilot.errors import SchedulerError
from berth.pilot.profile import Profile
from berth.plugin.slurm.pilot_tail import PendingChange, apply, change_of, waiting_for
from berth.plugin.store import Store
from berth.policies.values import Edit, Request, Resources
from berth.predictor.core.forecast import Forecast

SHOW = "#!/bin/sh\necho where=$SLURM_JOB_PARTITION tasks=$SLURM_NTASKS gpus=$SLURM_JOB_GPUS\n"


@pytest.fixture
def site(slurm: Cluster) -> Iterator[RealDaemon]:
    """The site file and an empty store; no daemon is needed."""
    daemon = RealDaemon(slurm)
    daemon.write_site()
    daemon.store_file.parent.mkdir(exist_ok=True)
    Store.open(f"sqlite:///{daemon.store_file}").close()
    yield daemon
    daemon.store_file.unlink(missing_ok=True)


@pytest.fixture
def app(slurm: Cluster) -> str:
    path = slurm.work / "app.sh"
    path.write_text(SHOW)
    path.chmod(0o755)
    return str(path)


def submit(slurm: Cluster, site: RealDaemon, *words: str) -> dict[str, str]:
    done = slurm.berth("pilot", "submit", "--site", str(site.site_file), "--json", *words)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def refusal(slurm: Cluster, site: RealDaemon, *words: str) -> str:
    done = slurm.berth("pilot", "submit", "--site", str(site.site_file), *words, check=False)
    assert done.returncode == 2
    return done.stderr


def log_of(found: dict[str, str]) -> str:
    return Path(found["profile"].replace(".profile.json", ".log")).read_text()


def test_the_pilot_runs_on_the_reference_partition_and_its_profile_comes_home(
    slurm: Cluster, site: RealDaemon, app: str
) -> None:
    found = submit(slurm, site, "--name", "shown", "--", app)
    assert slurm.wait_for_state(found["pilot_job"], timeout_s=200) == "COMPLETED", log_of(found)
    job = slurm.job(found["pilot_job"])
    assert job["Partition"] == "cpu"
    profile = read_json(Path(found["profile"]), Profile)
    assert (profile.name, profile.platform, profile.complete) == ("shown", "quartz", True)
    assert profile.workload.command == (app,)
    store = Store.reading(f"sqlite:///{site.store_file}")
    record = store.workload("root/shown")
    store.close()
    assert record is not None, log_of(found)


@pytest.mark.slow
def test_a_profile_goes_to_the_spool_where_the_store_is_out_of_reach(
    slurm: Cluster, site: RealDaemon, app: str
) -> None:
    site.store_file.unlink()
    site.store_file.mkdir()
    spool = slurm.work / "spool"
    spool.mkdir(exist_ok=True)
    found = submit(slurm, site, "--spool", str(spool), "--", app)
    slurm.wait_for_state(found["pilot_job"], timeout_s=200)
    site.store_file.rmdir()
    assert [read_json(path, Profile).name for path in spool.iterdir()] == ["app.sh"]


@pytest.mark.slow
def test_every_rank_of_one_launch_is_measured(slurm: Cluster, site: RealDaemon) -> None:
    """Every rank runs once, as ranks wait for each other; they are not counted."""
    ranks = slurm.work / "ranks"
    ranks.mkdir(exist_ok=True)
    program = slurm.work / "rank.sh"
    program.write_text(
        f"#!/bin/sh\necho x >> {ranks}/$SLURM_PROCID\n"
        f"n=$(wc -l < {ranks}/$SLURM_PROCID)\n"
        f"until [ $(cat {ranks}/[012] 2>/dev/null | wc -l) -ge $((3 * n)) ]; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    found = submit(slurm, site, "--count", "--name", "mpi", "-n", "3", "--", str(program))
    assert slurm.wait_for_state(found["pilot_job"], timeout_s=200) == "COMPLETED", log_of(found)
    assert {path.name: path.read_text() for path in ranks.iterdir()} == dict.fromkeys("012", "x\n")
    profile = read_json(Path(found["profile"]), Profile)
    assert (profile.runs_on.ranks, profile.runs_on.nodes) == (3, 1)
    assert profile.ranks is not None
    assert profile.ranks.count == 3
    assert profile.ranks.mean_s <= profile.ranks.slowest_s
    assert profile.value("instructions") is None


@pytest.mark.slow
def test_pilots_on_several_numbers_of_nodes_are_one_workload(
    slurm: Cluster, site: RealDaemon
) -> None:
    """One after another; the last one's end puts what all of them measured into the store."""
    program = slurm.work / "share.sh"
    program.write_text("#!/bin/sh\nsleep $(expr 8 / ${SLURM_JOB_NUM_NODES:-1} | sed 's/^/0./')\n")
    program.chmod(0o755)
    options = ("--name", "share", "--nodes", "1,2")
    found = submit(slurm, site, *options, "--", str(program))
    assert len(found["pilot_jobs"]) == 2
    assert slurm.wait_for_state(found["pilot_job"], timeout_s=200) == "COMPLETED"
    store = Store.reading(f"sqlite:///{site.store_file}")
    record = store.workload("root/share")
    forecasts = store.forecasts("root/share")
    store.close()
    assert record is not None
    document = json.loads(record.document)
    (two,) = document["node_scaling"]
    assert (two["nodes"], two["ranks"]) == (2, 2)
    assert two["runtime_s"] >= 0.4
    forecast = Forecast.from_json(forecasts[0].document)
    assert forecast.nodes is not None
    assert forecast.nodes.measured == (1, 2)


def test_the_real_job_waits_for_the_pilot_and_is_told_where_it_goes(
    slurm: Cluster, site: RealDaemon, app: str
) -> None:
    found = submit(slurm, site, "--then-place", "--name", "placed", "--", app)
    waiting = slurm.job(found["job"])
    assert waiting["Partition"] == "auto"
    assert slurm.wait_for_state(found["job"], timeout_s=200) == "COMPLETED"
    assert f"Job {found['job']}" in log_of(found)
    assert slurm.job(found["pilot_job"])["JobState"] in ("COMPLETED", "FAILED")
    assert "where=" in (slurm.work / f"slurm-{found['job']}.out").read_text()


def test_the_real_job_runs_where_it_was_asked_when_the_pilot_dies(
    slurm: Cluster, site: RealDaemon
) -> None:
    found = submit(slurm, site, "--then-place", "-p", "mig", "--", "sleep", "30")
    slurm.wait_for_state(found["pilot_job"], "RUNNING")
    slurm.run("scancel", "--signal=KILL", "--full", found["pilot_job"])
    slurm.run("scancel", found["pilot_job"])
    slurm.wait_for_state(found["job"], "RUNNING")
    assert slurm.job(found["job"])["Partition"] == "mig"


@pytest.mark.slow
def test_a_failing_program_is_said_and_the_real_job_still_runs(
    slurm: Cluster, site: RealDaemon
) -> None:
    found = submit(slurm, site, "--then-place", "--name", "bad", "--", "false")
    assert slurm.wait_for_state(found["pilot_job"], timeout_s=200) == "FAILED"
    assert slurm.wait_for_state(found["job"], timeout_s=200) == "FAILED"


@pytest.mark.slow
def test_a_user_without_rights_on_the_reference_partition_is_told_so(
    slurm: Cluster, site: RealDaemon
) -> None:
    text = site.site_file.read_text()
    site.site_file.write_text(
        text.replace('reference_partition = "cpu"', 'reference_partition = "reserved"')
    )
    berth = str(Path(sys.executable).with_name("berth"))
    words = (berth, "pilot", "submit", "--site", str(site.site_file), "--results")
    for user, status in ((OTHER_USER, 1), (USER, 0)):
        folder = slurm.work / f"pilots-of-{user}"
        folder.mkdir()
        folder.chmod(0o777)
        done = slurm.run(*words, str(folder), "--json", "--", "/bin/true", user=user, check=False)
        assert done.returncode == status, done.stderr
        if status:
            assert "the reference partition 'reserved' takes no pilot job of yours" in done.stderr
            assert "berth pilot run" in done.stderr
            assert "Traceback" not in done.stderr
        else:
            slurm.run("scancel", json.loads(done.stdout)["pilot_job"])


# The placing itself, with a decision of ours: what the predictor says is not this test's matter.


@pytest.fixture
def in_cluster(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for key, value in slurm.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(slurm.work)
    return slurm


REQUEST = Request(user="root", account=None, resources=Resources(nodes=0, tasks=8), workload="p")
TO_GPU = Edit(queue="gpu", gres="gpu:h200:1", resources=Resources(1, 1, 4, gpus=1))


def waiting_job(slurm: Cluster, *options: str, script: str = SHOW) -> tuple[int, int]:
    """A pilot that runs for a while, and a job that waits for it; both root's."""
    pilot = slurm.sbatch("-p", "cpu", script="#!/bin/sh\nsleep 60\n", user=None)
    job = slurm.sbatch(
        "-p", "auto", f"--dependency=afterany:{pilot.id}", *options, script=script, user=None
    )
    return pilot.id, job.id


def test_a_waiting_job_is_found_and_moved_and_runs_in_its_new_shape(in_cluster: Cluster) -> None:
    slurm = in_cluster
    script = "#!/bin/sh\n" + "scontrol show job $SLURM_JOB_ID | grep -o 'NumTasks=[0-9]*'\n" + SHOW
    pilot, job = waiting_job(slurm, "-n", "8", "--mem=1000", script=script)
    assert waiting_for(str(pilot)) == str(job)
    apply(str(job), change_of(REQUEST, TO_GPU))
    assert slurm.job(job)["JobState"] == "PENDING"
    slurm.run("scancel", str(pilot))
    assert slurm.wait_for_state(job) == "COMPLETED"
    text = (slurm.work / f"slurm-{job}.out").read_text()
    assert "where=gpu" in text
    assert "gpus=0" in text
    assert "NumTasks=1" in text
    assert slurm.job(job)["Comment"] == "berth:p"


def test_a_job_that_asked_for_cores_of_a_task_may_get_fewer(in_cluster: Cluster) -> None:
    slurm = in_cluster
    pilot, job = waiting_job(slurm, "-c", "4")
    assert slurm.job(job)["MinCPUsNode"] == "4"
    apply(str(job), change_of(REQUEST, Edit(queue="gpu", resources=Resources(1, 1, 1))))
    slurm.run("scancel", str(pilot))
    assert slurm.wait_for_state(job) == "COMPLETED"
    after = slurm.job(job)
    assert (after["Partition"], after["NumCPUs"], after["MinCPUsNode"]) == ("gpu", "1", "1")


def test_the_error_that_is_told_is_the_one_of_the_change(in_cluster: Cluster) -> None:
    slurm = in_cluster
    pilot, job = waiting_job(slurm, "-c", "4")
    change = PendingChange(("NumNodes=1-1", "CPUsPerTask=1", "NumCPUs=1-1"), ())
    with pytest.raises(SchedulerError, match=r"CPU count|configuration"):
        apply(str(job), change)
    after = slurm.job(job)
    assert (after["CPUs/Task"], after["MinCPUsNode"]) == ("4", "4")
    slurm.run("scancel", str(pilot))
    assert slurm.wait_for_state(job) == "COMPLETED"


def test_no_job_waits_for_a_pilot_of_its_own(in_cluster: Cluster) -> None:
    pilot = in_cluster.sbatch("-p", "cpu", "--hold", user=None)
    assert waiting_for(str(pilot.id)) is None


IMPOSSIBLE = {
    "a partition that is not there": Edit(queue="nowhere"),
    "more GPUs than there are": Edit(queue="gpu", gres="gpu:h200:9"),
    "a closed partition": Edit(queue="closed"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_place_that_slurm_would_refuse_leaves_the_waiting_job_as_it_was(
    in_cluster: Cluster, case: str
) -> None:
    slurm = in_cluster
    pilot, job = waiting_job(slurm, "-n", "8")
    before = slurm.job(job)
    with pytest.raises(SchedulerError):
        apply(str(job), change_of(REQUEST, IMPOSSIBLE[case]))
    after = slurm.job(job)
    for key in ("Partition", "NumTasks", "NumCPUs", "NumNodes", "TresPerNode", "Comment"):
        assert after.get(key) == before.get(key)
    slurm.run("scancel", str(pilot))
    assert slurm.wait_for_state(job) == "COMPLETED"


def test_a_change_that_fails_half_way_is_put_back(in_cluster: Cluster) -> None:
    """Slurm 22.05 keeps the first fields of an update whose last one it refuses."""
    slurm = in_cluster
    pilot, job = waiting_job(slurm, "-n", "8")
    change = PendingChange(
        ("NumTasks=1", "NumCPUs=1-1", "Gres=gpu:h200:1", "Partition=nowhere"), ()
    )
    with pytest.raises(SchedulerError):
        apply(str(job), change)
    after = slurm.job(job)
    assert (after["Partition"], after["NumTasks"]) == ("auto", "8")
    slurm.run("scancel", str(pilot))
    assert slurm.wait_for_state(job) == "COMPLETED"


def test_who_may_not_use_a_partition_is_not_sent_there_by_his_pilot(
    in_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm 26.05 would take the job there, and keep it waiting for ever."""
    slurm = in_cluster
    pilot, job = waiting_job(slurm, "-n", "8")
    for user, closed in ((OTHER_USER, True), (USER, False)):
        entry = pwd.getpwnam(user)
        monkeypatch.setattr(os, "geteuid", lambda uid=entry.pw_uid: uid)
        monkeypatch.setattr(os, "getegid", lambda gid=entry.pw_gid: gid)
        monkeypatch.setattr(os, "getgroups", list)
        change = change_of(REQUEST, Edit(queue="reserved", resources=Resources(1, 1, 1)))
        if closed:
            with pytest.raises(SchedulerError, match="not open to your groups"):
                apply(str(job), change)
        else:
            apply(str(job), change)
        assert slurm.job(job)["Partition"] == ("auto" if closed else "reserved")
    monkeypatch.undo()
    slurm.run("scancel", str(pilot))


def test_a_job_that_no_longer_waits_is_left_alone(in_cluster: Cluster) -> None:
    slurm = in_cluster
    job = slurm.sbatch("-p", "cpu", user=None)
    wait_until(lambda: slurm.job(job.id)["JobState"] == "COMPLETED", "it has run")
    with pytest.raises(SchedulerError, match="waits no more"):
        apply(str(job.id), change_of(REQUEST, TO_GPU))
