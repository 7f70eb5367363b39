"""What of Slurm's configuration keeps Berth from serving its jobs: each fault made, and named."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from berth_daemon import Harbour, fake_slurm, harbour

from berth.plugin.findings import Finding, Status
from berth.plugin.site.load import load_site
from berth.plugin.slurm.checks import check_munge, check_running, check_setup
from berth.plugin.slurm.commands import listed, parse_configuration
from berth.plugin.slurm.filter import (
    CLIENT_FILTER_PATH,
    FILTER_PATH,
    check_libraries,
    check_lua_file,
)

SOUND = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AuthType": "auth/none",
    "ClusterName": "lab",
    "GresTypes": "gpu",
    "JobAcctGatherType": "jobacct_gather/cgroup",
    "JobSubmitPlugins": "lua",
    "MinJobAge": "300 sec",
    "SelectType": "select/cons_tres",
    "SLURM_VERSION": "22.05.8",
    "SlurmctldHost[0]": "elsewhere",
}
Check = Callable[..., list[Finding]]


@pytest.fixture
def site() -> Harbour:
    with harbour() as made:
        yield made


@pytest.fixture
def check(site: Harbour, monkeypatch: pytest.MonkeyPatch) -> Check:
    commands = fake_slurm(site.folder / "bin")
    monkeypatch.setenv("PATH", f"{commands.tools}:{os.environ['PATH']}")

    def look(clock_s: float = 0.0, **changed: str) -> list[Finding]:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + clock_s))
        values = {**SOUND, **{k.replace("__", "["): v for k, v in changed.items()}}
        lines = [f"Configuration data as of {at}", *(f"{k} = {v}" for k, v in values.items())]
        commands.says("config", "\n".join(lines) + "\n")
        return list(check_setup(load_site(site.site_file)))

    return look


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_a_sound_configuration_has_no_findings(check: Check) -> None:
    assert check() == []


@pytest.mark.parametrize(
    ("changed", "status", "says"),
    [
        ({"SLURM_VERSION": "20.11.9"}, Status.WARN, "tested with 22.05 to 26.05"),
        ({"SLURM_VERSION": "27.11.0"}, Status.WARN, "tested with 22.05 to 26.05"),
    ],
)
def test_each_fault_is_named(
    check: Check, changed: dict[str, str], status: Status, says: str
) -> None:
    found = only(check(**changed))
    assert (found.status, says in found.text) == (status, True), found
    assert found.advice


SLURM_USER = "daemon"
"""A user of every Debian, who stands for SlurmUser."""


def test_a_slurm_user_whom_the_daemon_does_not_answer_is_named(site: Harbour, check: Check) -> None:
    uid = pwd.getpwnam(SLURM_USER).pw_uid
    found = only(check(SlurmUser=f"{SLURM_USER}({uid})"))
    assert found.status is Status.FAIL
    assert "its filter gets no answer" in found.text
    assert SLURM_USER in (found.advice or "")
    site.write_site(user=SLURM_USER)
    assert check(SlurmUser=f"{SLURM_USER}({uid})") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_private_data_that_the_daemon_may_not_see_is_named(site: Harbour, check: Check) -> None:
    site.socket.touch()
    os.chown(site.socket, pwd.getpwnam(SLURM_USER).pw_uid, -1)
    found = only(check(PrivateData="jobs,usage"))
    assert f"PrivateData=jobs: the daemon's user {SLURM_USER} sees only its own" in found.text
    assert "adminlevel=operator" in (found.advice or "")
    sacctmgr = site.folder / "bin/sacctmgr"
    sacctmgr.write_text("#!/bin/sh\necho Operator\n")
    sacctmgr.chmod(0o755)
    assert check(PrivateData="jobs,usage") == []
    assert check(PrivateData="usage") == []


def test_two_controllers_with_a_store_each_are_named(site: Harbour, check: Check) -> None:
    found = only(check(**{"SlurmctldHost__1]": "backup(10.0.0.2)"}))
    assert "2 hosts run slurmctld" in found.text
    assert "PostgreSQL" in (found.advice or "")
    site.store_url = "postgresql://berth@db/berth"
    site.write_site()
    assert check(**{"SlurmctldHost__1]": "backup(10.0.0.2)"}) == []


@pytest.mark.parametrize(("clock_s", "side"), [(90.0, "ahead of"), (-90.0, "behind")])
def test_clocks_that_differ_are_named(check: Check, clock_s: float, side: str) -> None:
    found = only(check(clock_s))
    assert found.check == "clock"
    assert side in found.text


def test_an_answer_that_is_no_configuration_is_one_finding(
    site: Harbour, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    (site.folder / "bin/answers/config.out").write_text("\x00garbage\n")
    found = only(list(check_setup(load_site(site.site_file))))
    assert "nothing that can be read" in found.text


def of_this_host(folder: Path, **changed: str) -> dict[str, str]:
    return {
        "SlurmctldHost__0]": f"{socket.gethostname()}(127.0.0.1)",
        "PluginDir": str(folder),
        "SLURM_CONF": str(folder / "slurm.conf"),
        **changed,
    }


def test_the_lua_file_is_looked_at_where_slurmctld_runs(check: Check, tmp_path: Path) -> None:
    lua, plugin = tmp_path / "job_submit.lua", tmp_path / "job_submit_lua.so"
    lines = check(**of_this_host(tmp_path))
    assert [f.status for f in lines] == [Status.FAIL, Status.FAIL]
    assert "will not start again" in lines[0].text
    assert "slurmctld needs it" in lines[1].text
    plugin.write_bytes(b"\x7fELF ... no Lua in here")
    (tmp_path / "older.lua").write_text(FILTER_PATH.read_text() + "-- older\n")
    for text, status, says in (
        (FILTER_PATH.read_text(), Status.OK, "this version's filter"),
        (FILTER_PATH.read_text() + "\n", Status.WARN, "another version's filter"),
        (f'dofile("{FILTER_PATH}") -- Berth', Status.OK, "names Berth's"),
        ('dofile("/etc/slurm/berth_submit.lua")', Status.FAIL, "No such file"),
        (f'dofile("{tmp_path / "older.lua"}") -- Berth', Status.WARN, "another version's"),
        ("return slurm.SUCCESS", Status.WARN, "does not load Berth's filter"),
    ):
        lua.write_text(text)
        found = only(check(**of_this_host(tmp_path)))
        assert (found.status, says in found.text) == (status, True), found


def test_a_host_without_the_client_filter_that_slurm_conf_names_is_a_failure(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch, srun and salloc end with an error there, steps of running jobs too (Slurm 22.05)."""
    monkeypatch.delenv("SLURM_CONF", raising=False)
    slurm = {"CliFilterPlugins": "cli_filter/lua", "SLURM_CONF": str(tmp_path / "slurm.conf")}
    lua = tmp_path / "cli_filter.lua"
    found = only(check(**slurm))
    assert found.status is Status.FAIL
    assert "sbatch, srun and salloc end with an error on this host" in found.text
    for text, statuses in (
        (CLIENT_FILTER_PATH.read_text(), [Status.OK]),
        (CLIENT_FILTER_PATH.read_text() + "-- older\n", [Status.WARN]),
        ("-- the site's own\n", []),
    ):
        lua.write_text(text)
        assert [f.status for f in check(**slurm)] == statuses
    lua.unlink()
    assert check(**{**slurm, "CliFilterPlugins": "(null)"}) == []
    assert check(**{**slurm, "SLURM_CONF": "/nowhere/slurm.conf"}) == []


def test_a_lua_file_that_slurmctld_may_not_read_is_a_failure(
    site: Harbour, check: Check, tmp_path: Path
) -> None:
    """It goes on with what it read before, and does not start again (Slurm 22.05: fatal)."""
    person = next(p for p in pwd.getpwall() if p.pw_uid not in (0, os.geteuid()))
    site.write_site(user=person.pw_name)
    site.folder.chmod(0o755)
    folder = site.folder / "slurm"
    folder.mkdir()
    (folder / "job_submit_lua.so").write_bytes(b"\x7fELF")
    lua = folder / "job_submit.lua"
    lua.write_text(FILTER_PATH.read_text())
    lua.chmod(0o644)
    slurm = of_this_host(folder, SlurmUser=f"{person.pw_name}({person.pw_uid})")
    assert only(check(**slurm)).status is Status.OK
    lua.chmod(0o600)
    unread = next(f for f in check(**slurm) if f.status is Status.FAIL)
    assert f"{person.pw_name} may not read {lua}: slurmctld will not start" in unread.text


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give files away")
def test_a_slurmctld_that_was_started_before_its_user_was_in_the_group_is_a_failure(
    site: Harbour, tmp_path: Path
) -> None:
    person = next(p for p in pwd.getpwall() if p.pw_uid not in (0, os.geteuid()))
    found = load_site(site.write_site(user=person.pw_name))
    site.folder.chmod(0o755)
    site.socket.touch()
    os.chown(site.socket, -1, person.pw_gid)
    site.socket.chmod(0o660)
    (tmp_path / "77").mkdir()
    (tmp_path / "self").mkdir()
    config = {"SlurmUser": f"{person.pw_name}({person.pw_uid})"}
    status = "Name:\tslurmctld\nUid:\t{0}\t{0}\t{0}\t{0}\nGid:\t1\t{1}\t1\t1\nGroups:\t{2} \n"
    for name, gid, groups, problems in (
        ("slurmctld", 65533, "65533", 1),
        ("slurmctld", 65533, "", 1),
        ("slurmctld", 65533, f"65533 {person.pw_gid}", 0),
        ("slurmctld", person.pw_gid, "", 0),
        ("slurmd", 65533, "", 0),
    ):
        text = status.format(person.pw_uid, gid, groups).replace("slurmctld", name)
        (tmp_path / "77" / "status").write_text(text)
        texts = [f.text for f in check_running(found, config, tmp_path)]
        assert len(texts) == problems, (name, gid, groups, texts)
        assert all(f"(process 77) may not write to {site.socket}" in text for text in texts)


@pytest.mark.skipif(shutil.which("lua5.1") is None, reason="no lua5.1 here")
def test_a_lua_file_that_cannot_be_compiled_is_a_failure(tmp_path: Path) -> None:
    lua = tmp_path / "job_submit.lua"
    lua.write_text(FILTER_PATH.read_text())
    assert only(list(check_lua_file(lua, "lua5.1"))).status is Status.OK
    lua.write_text("function slurm_job_submit(")
    found = only(list(check_lua_file(lua, "lua5.1")))
    assert (found.status, "is no Lua" in found.text) == (Status.FAIL, True), found
    assert "job_submit.lua:1:" in found.text


def test_lua_without_the_libraries_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, lua = tmp_path / "job_submit_lua.so", tmp_path / "lua5.1"
    plugin.write_bytes(b"\x7fELF\0liblua5.1.so.0\0")
    lua.write_text('#!/bin/sh\ncase "$2" in *cjson*) exit 1;; esac\n')
    lua.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = only(list(check_libraries(plugin)))
    assert found.status is Status.FAIL
    assert "has no cjson" in found.text
    lua.write_text("#!/bin/sh\nexit 0\n")
    assert list(check_libraries(plugin)) == []


def test_munge_that_does_not_hold_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("munge", "unmunge"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list(check_munge({})) == []
    (tmp_path / "unmunge").write_text("#!/bin/sh\necho 'unmunge: Error: Expired' >&2; exit 15\n")
    assert "Expired" in only(list(check_munge({"AuthInfo": "socket=/run/other.sock"}))).text
    (tmp_path / "munge").write_text("#!/bin/sh\necho 'Failed to access socket' >&2; exit 6\n")
    assert "Failed to access socket" in only(list(check_munge({}))).text


def test_configuration_lines_are_read_as_slurm_writes_them() -> None:
    config = parse_configuration("Configuration data as of X\nA = 1\nB   = (null)\nC = a,b=c\n\n#")
    assert config == {"A": "1", "B": "(null)", "C": "a,b=c"}
    assert listed(config, "B") == ()
    assert listed(config, "C") == ("a", "b=c")
    assert listed(config, "D") == ()
