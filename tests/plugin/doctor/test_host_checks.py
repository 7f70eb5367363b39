"""What of a host keeps Berth from serving (sockets, disks, security modules), and its remedies."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from berth_daemon import (
    NODES,
    Harbour,
    fake_slurm,
    forecast,
    harbour,
)
from made_forecasts import put
from ui_store import decision

from berth.plugin.doctor import store as store_check
from berth.plugin.doctor.cluster import check_cluster
from berth.plugin.doctor.daemon import (
    check_denials,
    check_rights,
    check_socket,
)
from berth.plugin.doctor.examine import _guarded
from berth.plugin.doctor.store import check_disk, check_store, file_system_of
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


def test_of_a_large_store_doctor_says_what_it_did_not_search(
    site: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.store(), forecast("stream"))
    said = "not searched for damage"
    for checked_bytes, times in ((1 << 40, 0), (0, 1)):
        monkeypatch.setattr("berth.plugin.store.database.CHECKED_BYTES", checked_bytes)
        texts = [found.text for found in check_store(load_site(site.site_file))]
        assert sum(said in text for text in texts) == times


def of_cluster(site: Harbour, **texts: str) -> list[Finding]:
    fake_slurm(site.folder / "bin", **texts)
    found = check_cluster(load_site(site.site_file), Slurm())
    return [finding for finding in found if finding.check == "candidate"]


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
