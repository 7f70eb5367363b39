"""What of a host keeps Berth from serving (sockets, disks, security modules), and its remedies."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import (
    CONFIGURATION,
    NODES,
    PARTITIONS,
    Harbour,
    fake_slurm,
    forecast,
    harbour,
)
from made_forecasts import put
from ui_store import decision

from berth.pilot.version import VERSION
from berth.plugin.doctor import store as store_check
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.doctor.daemon import (
    check_daemon,
    check_denials,
    check_rights,
    check_socket,
    check_users,
)
from berth.plugin.doctor.examine import _guarded
from berth.plugin.doctor.store import check_disk, check_left_behind, check_store, file_system_of
from berth.plugin.findings import Finding, Status
from berth.plugin.site.load import load_site
from berth.plugin.slurm.filter import check as check_filter
from berth.plugin.slurm.scheduler import Slurm

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
server:/export /home nfs4 rw 0 0
lustre@tcp:/scratch /home/data\\040sets lustre rw 0 0
broken
"""


@pytest.fixture
def site() -> Iterator[Harbour]:
    with harbour() as made:
        yield made


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/berth", "ext4"),
        ("/run/berth", "tmpfs"),
        ("/home/alice", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/data sets/x", "lustre"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_a_shared_disk_and_a_full_one_are_named(
    site: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_site(site.site_file)
    monkeypatch.setattr(store_check, "LEAST_FREE_BYTES", 0)
    assert list(check_disk(found)) == []
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {site.folder.resolve()} nfs4 rw 0 0\n")
    monkeypatch.setattr(store_check, "MOUNTS", mounts)
    monkeypatch.setattr(store_check, "LEAST_FREE_BYTES", shutil.disk_usage("/").total)
    shared, full = check_disk(found)
    assert "is on nfs4" in shared.text
    assert "MiB are left" in full.text
    site.store_url = "postgresql://berth@db/berth"
    assert list(check_disk(load_site(site.write_site()))) == []


def test_a_decision_from_the_future_tells_of_a_wrong_clock(site: Harbour) -> None:
    site.store().decisions.add([replace(decision(1), time_s=time.time() + 3600.0)])
    clocks = [f for f in check_store(load_site(site.site_file)) if f.check == "clock"]
    assert "from now" in clocks[0].text


def test_a_socket_that_the_scheduler_cannot_reach_is_a_failure(site: Harbour) -> None:
    person = next(p for p in pwd.getpwall() if p.pw_uid not in (0, os.geteuid()))
    found = load_site(site.write_site(user=person.pw_name))
    assert list(check_socket(found)) == []  # no socket: the daemon's own check says so
    site.socket.touch()
    site.socket.chmod(0o660)
    (closed,) = check_socket(found)
    assert f"{person.pw_name} may not write to {site.socket}" in closed.text
    site.folder.chmod(0o700)
    (closed,) = check_socket(found)
    assert f"may not enter {site.folder}" in closed.text
    site.folder.chmod(0o755)
    site.socket.chmod(0o666)
    assert list(check_socket(found)) == []


def test_users_whom_nobody_serves_are_named(site: Harbour) -> None:
    found = load_site(site.site_file)
    (absent,) = check_users(found)
    assert (absent.check, absent.status) == ("users", Status.WARN)
    assert f"nobody serves users at {site.user_socket}" in absent.text
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(site.user_socket))
        listener.listen(1)
        assert [f.status for f in check_users(found)] == [Status.OK]
    (dead,) = check_users(found)
    assert "refused" in dead.text


def test_a_kill_switch_or_a_filter_conf_that_the_scheduler_cannot_look_at_is_a_failure(
    site: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter takes a switch that it cannot look at for one that is there."""
    person = next(p for p in pwd.getpwall() if p.pw_uid not in (0, os.geteuid()))
    closed = site.folder / "closed"
    closed.mkdir(mode=0o700)
    site.write_site(user=person.pw_name)
    text = site.site_file.read_text()
    site.site_file.write_text(text.replace('switch = "off"', 'switch = "closed/off"'))
    (found,) = check_socket(load_site(site.site_file))
    assert (found.check, found.status) == ("kill switch", Status.FAIL)
    assert f"{person.pw_name} may not enter {closed}" in found.text
    closed.chmod(0o711)
    assert list(check_socket(load_site(site.site_file))) == []
    conf = site.folder / "filter.conf"
    conf.write_text("socket = x\n")
    monkeypatch.setenv("BERTH_FILTER_CONFIG", str(conf))
    assert [f.status for f in check_filter(load_site(site.site_file))] == [Status.WARN]
    conf.chmod(0o600)
    found, _ = check_filter(load_site(site.site_file))
    assert found.status is Status.FAIL
    assert f"{person.pw_name} may not read {conf}" in found.text
    assert "chmod" in (found.advice or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give files away")
def test_what_the_daemons_user_may_not_read_or_write_is_a_failure(site: Harbour) -> None:
    """Root, who runs doctor, may do all of it, and sees only that the daemon does not start."""
    person = next(p for p in pwd.getpwall() if p.pw_uid not in (0, os.geteuid()))
    site.folder.chmod(0o755)
    state, settings = site.folder / "state", site.folder / "etc"
    state.mkdir(mode=0o700)
    os.chown(state, person.pw_uid, person.pw_gid)
    site.store_url = str(state / "store.db")
    settings.mkdir()
    found = replace(load_site(site.write_site()), source=str(settings / "berth.toml"))
    (settings / "berth.toml").touch(0o644)
    assert list(check_rights(found)) == []  # no store yet: the store's own check says so
    store = state / "store.db"
    store.touch(0o640)
    (unwritable,) = check_rights(found)
    assert (unwritable.check, unwritable.status) == ("store", Status.FAIL)
    assert f"{person.pw_name} may not write to {store}" in unwritable.text
    os.chown(store, person.pw_uid, -1)
    assert list(check_rights(found)) == []
    log = state / "store.db-wal"  # as root leaves it behind who opened the store first
    log.touch(0o644)
    (unwritable,) = check_rights(found)
    assert f"{person.pw_name} may not write to {log}" in unwritable.text
    log.unlink()
    platform = settings / "platforms" / "quartz.json"
    platform.parent.mkdir()
    platform.touch(0o600)
    (unread,) = check_rights(found)
    assert f"{person.pw_name} may not read {platform}" in unread.text
    settings.chmod(0o700)
    (unread,) = check_rights(found)
    assert f"{person.pw_name} may not enter {settings}" in unread.text


def test_a_user_who_cannot_see_everything_is_told_so(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    (told,) = check_rights(load_site(site.site_file))
    assert (told.check, told.status) == ("user", Status.WARN)
    assert "as root" in (told.advice or "")


def test_decisions_that_wait_and_what_could_not_be_read_are_named(site: Harbour) -> None:
    found = load_site(site.site_file)
    assert list(check_left_behind(found)) == []
    spool = site.folder / "store.db.spool.jsonl"
    spool.write_text("{}\n")
    assert list(check_left_behind(found)) == []  # just now: the daemon is at work on it
    os.utime(spool, (time.time() - 7200, time.time() - 7200))
    for name in ("store.db.spool.jsonl.bad", "store.db-wal.orphaned"):
        (site.folder / name).write_text("x")
    waiting, bad, orphaned = check_left_behind(found)
    assert "the last one for 120 min" in waiting.text
    assert "could not be read back" in bad.text
    assert "deleted" in orphaned.text
    assert all(f.check == "stale state" and f.advice for f in (waiting, bad, orphaned))


def test_a_daemon_of_another_version_is_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {
        "version": "0.0.9", "mode": "shadow", "forecasts": 0, "state_age_s": 1.0, "problems": {},
        "recorder": {"problem": None},
    }  # fmt: skip
    monkeypatch.setattr("berth.plugin.doctor.daemon.ask", lambda *_: answer)
    texts = [f.text for f in check_daemon(load_site(site.site_file))]
    assert any("it is version 0.0.9" in text for text in texts)


def test_a_daemon_that_knows_an_old_state_or_has_problems_is_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_site(site.site_file)

    def said(age_s: float | None, mode: str = "enforce") -> list[str]:
        answer = {
            "version": VERSION, "mode": mode, "forecasts": 0, "state_age_s": age_s,
            "problems": {"learning": "it failed"}, "recorder": {"problem": "the disk is full"},
        }  # fmt: skip
        monkeypatch.setattr("berth.plugin.doctor.daemon.ask", lambda *_: answer)
        wrong = [f for f in check_daemon(found) if f.status is not Status.OK]
        assert all(f.advice for f in wrong)
        return [f.text for f in wrong]

    assert said(1.0) == ["learning: it failed", "recorder: the disk is full"]
    assert "it last read the cluster's state never" in said(None)
    assert "it last read the cluster's state 60 s ago" in said(60.0)
    assert f"it runs in mode shadow, and {found.source} says enforce" in said(1.0, "shadow")


def test_a_store_open_to_all_or_damaged_is_named(site: Harbour) -> None:
    store = site.store()
    file = store.database.path
    assert file is not None
    file.chmod(0o644)
    texts = [f.text for f in check_store(load_site(site.site_file)) if f.status is not Status.OK]
    assert any("everybody on this host can read" in text for text in texts)
    file.chmod(0o600)
    put(store, forecast("stream"))
    texts = [f.text for f in check_store(load_site(site.site_file)) if f.status is not Status.OK]
    assert not any("everybody" in text or "no workloads" in text for text in texts)
    store.close()
    pages = bytearray(file.read_bytes())
    pages[4096 : 4096 * 20] = b"\xff" * (4096 * 19)
    file.write_bytes(pages)
    (found,) = _guarded("store", lambda: check_store(load_site(site.site_file)))
    assert found.status is Status.FAIL
    assert "damaged" in found.text
    assert "restore a backup" in (found.advice or "")


def test_of_a_large_store_doctor_says_what_it_did_not_search(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.store(), forecast("stream"))
    said = "not searched for damage"
    for checked_bytes, times in ((1 << 40, 0), (0, 1)):
        monkeypatch.setattr("berth.plugin.store.database.CHECKED_BYTES", checked_bytes)
        texts = [found.text for found in check_store(load_site(site.site_file))]
        assert sum(said in text for text in texts) == times


def test_queues_and_features_that_are_not_there_are_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    text = site.site_file.read_text().replace('auto_partition = "auto"', 'auto_partition = "aut"')
    text = text.replace('partition = "cpu"', 'partition = "cpus"')
    text = text.replace('gres = "gpu:a100"', 'gres = "gpu:a100"\nfeatures = ["nvlink"]')
    site.site_file.write_text(text)
    fake_slurm(site.folder / "bin")
    found = [
        f for f in check_cluster(load_site(site.site_file), Slurm()) if f.status is Status.FAIL
    ]
    assert [f.text for f in found] == [
        "cpu: there is no partition cpus",
        "there is no partition aut: jobs for it are refused",
        "gpu: no node of partition gpu has the feature nvlink",
    ]
    assert all(f.advice for f in found)


def of_cluster(site: Harbour, **texts: str) -> list[Finding]:
    fake_slurm(site.folder / "bin", **texts)
    found = check_cluster(load_site(site.site_file), Slurm())
    return [finding for finding in found if finding.check == "candidate"]


def test_places_that_no_node_can_give_are_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    assert of_cluster(site) == []
    nodes = (site.folder / "bin/answers/node.out").read_text()
    (wrong,) = of_cluster(site, nodes=nodes.replace("gpu:a100", "gpu:v100"))
    assert wrong.status is Status.FAIL
    assert "(there: gpu:v100)" in wrong.text
    (wrong,) = of_cluster(site, nodes=nodes.replace("Gres=gpu:a100:4", "Gres=(null)"))
    assert "there are no GPUs" in wrong.text
    small = nodes.replace("CoresPerSocket=32", "CoresPerSocket=1")
    assert any("cores (at most" in f.text for f in of_cluster(site, nodes=small))


def test_slices_of_which_none_is_there_are_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single slices come and go as GPUs are cut; a name that was never there is a wrong one."""
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    text = site.site_file.read_text().replace('"a100-80gb"', '"h100-mig-1g.10gb"')
    site.site_file.write_text(text.replace('"gpu:a100"', '"gpu:1g.10gb"'))
    nodes = NODES.replace("gpu:a100", "gpu:1g.12gb")
    (wrong,) = of_cluster(site, nodes=nodes)
    assert wrong.status is Status.WARN
    assert "gpu: no node of partition gpu has gpu:1g.10gb (there: gpu:1g.12gb)" in wrong.text
    assert of_cluster(site, nodes=NODES.replace("gpu:a100", "gpu:1g.10gb")) == []


def test_partitions_that_start_no_jobs_are_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    fake_slurm(site.folder / "bin", partitions=PARTITIONS.replace("State=UP", "State=INACTIVE"))
    found = [f for f in check_cluster(load_site(site.site_file), Slurm()) if f.advice]
    assert {f.status for f in found} == {Status.WARN}
    assert sorted(f.text for f in found) == [
        "cpu: partition cpu is INACTIVE: takes no jobs and starts none",
        "gpu: partition gpu is INACTIVE: takes no jobs and starts none",
        "partition auto is INACTIVE: takes no jobs and starts none",
    ]


def test_an_auto_partition_that_lacks_nodes_or_gives_more_memory_is_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")

    def about_auto() -> list[str]:
        found = check_cluster(load_site(site.site_file), Slurm())
        return [f.text for f in found if f.check == "auto queue"]

    fake_slurm(site.folder / "bin")
    (lacking,) = about_auto()
    assert lacking.startswith("partition auto has no node of gpu: jobs that only these take")
    text = site.site_file.read_text().replace('[fit]\nmode = "off"', "[fit]")
    site.site_file.write_text(text)
    everywhere = NODES.replace("Partitions=gpu", "Partitions=gpu,auto")
    memory = PARTITIONS.replace("TotalNodes=2", "TotalNodes=2 DefMemPerCPU=2000")
    config = CONFIGURATION + "SelectTypeParameters = CR_CORE_MEMORY\nEnforcePartLimits = ALL\n"
    fake_slurm(site.folder / "bin", partitions=memory, nodes=everywhere)
    (site.folder / "bin/answers/config.out").write_text(config)
    (enforced,) = about_auto()
    assert enforced.startswith("EnforcePartLimits=ALL")
    less = memory.replace("DefMemPerCPU=2000", "DefMemPerCPU=1000", 1)
    fake_slurm(site.folder / "bin", partitions=less, nodes=everywhere)
    (site.folder / "bin/answers/config.out").write_text(config)
    (kept,) = (text for text in about_auto() if "less-memory" in text)
    assert kept.startswith("jobs of auto that name no memory and no time limit are not sent to cpu")


def test_refusals_of_security_modules_are_found(tmp_path: Path) -> None:
    log, enforcing = tmp_path / "audit.log", tmp_path / "enforce"
    assert list(check_denials((log,), enforcing)) == []
    log.write_text(
        'type=AVC msg=audit(1): avc:  denied  { write } for pid=7 comm="slurmctld" '
        'name="berth.sock"\ntype=AVC msg=audit(2): avc:  denied  { read } comm="other"\n'
    )
    (found,) = check_denials((log,), enforcing)
    assert "1 refusals" in found.text
    assert "berth.sock" in found.text


def test_a_log_that_may_not_be_read_matters_where_selinux_enforces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, enforcing = tmp_path / "audit.log", tmp_path / "enforce"
    log.mkdir()  # what cannot be opened, for root as well
    assert list(check_denials((log,), enforcing)) == []
    enforcing.write_text("1\n")
    (found,) = check_denials((log,), enforcing)
    assert "as root" in (found.advice or "")


def test_a_file_that_cannot_be_read_is_a_finding_with_a_remedy(tmp_path: Path) -> None:
    def look() -> Iterator[Finding]:
        (tmp_path / "gone").read_text()
        yield Finding("x", Status.OK, "never")

    (found,) = _guarded("x", look)
    assert found.status is Status.FAIL
    assert str(tmp_path / "gone") in found.text
    assert found.advice
