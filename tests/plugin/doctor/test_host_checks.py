"""What of a host keeps Berth from serving: sockets, disks, clocks, security modules."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import Harbour, fake_slurm, harbour
from ui_store import decision

from berth.plugin.doctor import store as store_check
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.doctor.daemon import check_daemon, check_socket
from berth.plugin.doctor.denials import check_denials
from berth.plugin.doctor.findings import Finding, Status
from berth.plugin.doctor.store import check_disk, check_store, file_system_of
from berth.plugin.site.load import load_site
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


def of_cluster(site: Harbour, **texts: str) -> list[Finding]:
    fake_slurm(site.folder / "bin", **texts)
    found = check_cluster(load_site(site.site_file), Slurm())
    return [finding for finding in found if finding.check == "candidate"]


def test_places_that_no_node_can_give_are_named(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    assert of_cluster(site) == []
    nodes = (site.folder / "bin/nodes").read_text()
    (wrong,) = of_cluster(site, nodes=nodes.replace("gpu:a100", "gpu:v100"))
    assert wrong.status is Status.FAIL
    assert "(there: gpu:v100)" in wrong.text
    (wrong,) = of_cluster(site, nodes=nodes.replace("Gres=gpu:a100:4", "Gres=(null)"))
    assert "there are no GPUs" in wrong.text
    small = nodes.replace("CoresPerSocket=32", "CoresPerSocket=1")
    assert any("cores (at most" in f.text for f in of_cluster(site, nodes=small))


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
