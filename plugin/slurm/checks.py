"""Checks, for ``berth site doctor``, whether Slurm's configuration prevents Berth from placing
jobs.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.daemon.app import uids_of
from berth.plugin.findings import (
    READ,
    WRITE,
    Findings,
    barred,
    fail,
    persons,
    wall_before,
    warn,
)
from berth.plugin.site.site import Site
from berth.plugin.slurm import commands
from berth.plugin.slurm.commands import listed, parse_configuration
from berth.plugin.slurm.filter import (
    check_client_filter,
    check_libraries,
    check_lua_file,
    interpreter_of,
    run_bounded,
)
from berth.plugin.slurm.records import moment_s
from berth.plugin.store.database import Database

OLDEST, NEWEST = (22, 5), (26, 5)
"""The oldest and newest Slurm versions that the filter is tested with."""
APART_S = 5.0
"""The largest accepted clock difference in seconds. munge fails at 300 s; expected start times are
wrong well before.
"""
_RECONFIGURE = "add it to slurm.conf, then scontrol reconfigure"


def check_setup(site: Site) -> Findings:
    """Yield the findings of all checks of Slurm's configuration.

    Files are checked only on slurmctld's own host.
    """
    asked_s = time.time()
    text = commands.run(("scontrol", "show", "config"))
    config = parse_configuration(text)
    if "ClusterName" not in config:
        yield warn(
            "slurm.conf",
            "scontrol show config wrote nothing that can be read",
            "is that Slurm's own scontrol? is slurmctld up?",
        )
        return
    yield from _version(config)
    yield from _clock(text, asked_s)
    yield from _plugins(config)
    yield from _client_filter(config)
    yield from _accounting(site, config)
    yield from _selection(site, config)
    yield from _users(site, config)
    if _is_here(config):
        yield from check_running(site, config)
    yield from _controllers(site, config)
    if config.get("AuthType", "auth/munge") == "auth/munge":
        yield from check_munge(config)


def _version(config: Mapping[str, str]) -> Findings:
    match = re.match(r"(\d+)\.(\d+)", config.get("SLURM_VERSION", ""))
    if match is None:
        return
    version = (int(match[1]), int(match[2]))
    if not OLDEST <= version <= NEWEST:
        span = f"{OLDEST[0]}.{OLDEST[1]:02d} to {NEWEST[0]}.{NEWEST[1]:02d}"
        yield warn(
            "version",
            f"Slurm {config['SLURM_VERSION']}: the filter is tested with {span}",
            'try it in mode = "shadow" first',
        )


def _clock(text: str, asked_s: float) -> Findings:
    """Warn where slurmctld's clock (in ``text``, local time) and this host's differ by over 5 s."""
    match = re.match(r"Configuration data as of (\S+)", text)
    if match is None:
        return
    controller_s = moment_s(match[1], utc=False)
    if controller_s is None:
        return
    apart_s = controller_s - asked_s
    if abs(apart_s) > APART_S:
        side = "ahead of" if apart_s > 0 else "behind"
        yield warn(
            "clock",
            f"slurmctld's clock is {abs(apart_s):.0f} s {side} this host's",
            "set both by NTP (chronyc tracking)",
        )


def _plugins(config: Mapping[str, str]) -> Findings:
    if "lua" not in listed(config, "JobSubmitPlugins"):
        yield warn(
            "slurm.conf",
            "JobSubmitPlugins has no lua: the filter is never asked",
            f"JobSubmitPlugins=lua: {_RECONFIGURE}",
        )
        return
    if "all_partitions" in listed(config, "JobSubmitPlugins"):
        yield warn(
            "slurm.conf",
            "JobSubmitPlugins has all_partitions: every job names all partitions, so Berth takes "
            "none for one that it may place",
            "take all_partitions out; an auto partition does the same and lets Berth choose",
        )
    if not _is_here(config):
        return
    folders = [Path(part) for part in config.get("PluginDir", "").split(":") if part]
    plugin = next(filter(_exists, (folder / "job_submit_lua.so" for folder in folders)), None)
    if plugin is None and any(folder.is_dir() for folder in folders):
        yield fail(
            "slurm.conf",
            f"job_submit_lua.so is not in {config['PluginDir']}: slurmctld will not start again",
            "install Slurm's Lua plugin, or take lua out of JobSubmitPlugins",
        )
    elif plugin is not None:
        yield from check_libraries(plugin)
    interpreter = None if plugin is None else interpreter_of(plugin)
    path = Path(config.get("SLURM_CONF", "")).parent / "job_submit.lua"
    yield from check_lua_file(path, interpreter)
    yield from _unread(path, config)


def _client_filter(config: Mapping[str, str]) -> Findings:
    """Check the client filter's file where slurm.conf enables it: without the file nobody can
    submit.
    """
    named = {name.removeprefix("cli_filter/") for name in listed(config, "CliFilterPlugins")}
    if "lua" not in named:
        return
    # The folder where this host's commands look for the file; SLURM_CONF may name another.
    own = os.environ.get("SLURM_CONF") or config.get("SLURM_CONF", "")
    folder = Path(own).parent
    if own and folder.is_dir():
        yield from check_client_filter(folder / "cli_filter.lua")


def _unread(path: Path, config: Mapping[str, str]) -> Findings:
    """Check that slurmctld may read the filter's file.

    If not, slurmctld keeps the filter that it read before, and fails at its next start.
    """
    uid = _slurm_uid(config)
    for _, clause in barred(path, READ, {uid} if uid else ()):
        advice = f"chmod o+r {path}, o+x {path.parent}"
        yield fail("filter", f"{clause}: slurmctld will not start again", advice)


def _accounting(site: Site, config: Mapping[str, str]) -> Findings:
    remembered = re.match(r"\d+", config.get("MinJobAge", ""))
    store = config.get("AccountingStorageType", "")
    every_s = site.daemon.outcomes_refresh_s
    if "slurmdbd" not in store and remembered and 0 < int(remembered[0]) <= 2 * every_s:
        yield warn(
            "slurm.conf",
            f"without slurmdbd, jobs are forgotten {remembered[0]} s after their end "
            "(MinJobAge): some outcomes will be missed",
            f"MinJobAge={4 * every_s:.0f}, or slurmdbd",
        )
    if config.get("JobAcctGatherType", "").endswith(("none", "(null)")):
        yield warn(
            "slurm.conf",
            "JobAcctGatherType is none: nobody measures how much memory jobs need",
            f"JobAcctGatherType=jobacct_gather/cgroup: {_RECONFIGURE}",
        )


def _selection(site: Site, config: Mapping[str, str]) -> Findings:
    if config.get("SelectType", "").endswith("/linear"):
        yield warn(
            "slurm.conf",
            "SelectType is select/linear: every job gets whole nodes, whatever it is given",
            "SelectType=select/cons_tres",
        )
    if any(c.gres for c in site.candidates) and "gpu" not in listed(config, "GresTypes"):
        yield fail(
            "slurm.conf",
            "the site file has places with GPUs, and GresTypes has no gpu: such jobs are refused",
            f"GresTypes=gpu: {_RECONFIGURE}",
        )


def _users(site: Site, config: Mapping[str, str]) -> Findings:
    """Check that slurmctld may connect to the daemon, and that the daemon's user may see all jobs
    and nodes.
    """
    user, uid = _slurm_user(config), _slurm_uid(config)
    try:
        owner = pwd.getpwuid(site.daemon.socket.stat().st_uid)
    except (OSError, KeyError):
        owner = None
    if uid is not None and uid not in uids_of(site) and (owner is None or uid != owner.pw_uid):
        yield fail(
            "socket",
            f"slurmctld runs as {user}, whom daemon.scheduler_users does not name: its filter gets "
            "no answer",
            f'scheduler_users = ["{user}"] in the site file',
        )
    hidden = [kind for kind in ("jobs", "nodes", "reservations")
              if kind in listed(config, "PrivateData")]  # fmt: skip
    if (
        hidden
        and owner is not None
        and owner.pw_uid not in (0, uid)
        and not _is_operator(owner.pw_name)
    ):
        yield warn(
            "slurm.conf",
            f"PrivateData={','.join(hidden)}: the daemon's user {owner.pw_name} sees only its own",
            f"sacctmgr modify user {owner.pw_name} set adminlevel=operator",
        )


def check_running(
    site: Site, config: Mapping[str, str], processes: Path = Path("/proc")
) -> Findings:
    """Check that the running slurmctld may reach the daemon's socket with the groups it was started
    with.
    """
    uid, path = _slurm_uid(config), site.daemon.socket
    for person in persons({uid} if uid else ()):
        if wall_before(path, WRITE, person) is not None:
            continue  # the check of the socket itself reports this
        for pid, groups in _running(processes, person.pw_uid):
            wall = wall_before(path, WRITE, person, groups)
            if wall is not None:
                yield fail(
                    "socket",
                    f"slurmctld (process {pid}) may not {wall}: it was started before "
                    f"{person.pw_name} was put into the group, and reaches no daemon",
                    "systemctl restart slurmctld (scontrol reconfigure is not enough)",
                )


def _running(processes: Path, uid: int) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the process id and the groups of each slurmctld that runs as ``uid``."""
    for file in sorted(processes.glob("[0-9]*/status")):
        try:
            text = file.read_text()
        except OSError:
            continue  # the process has ended
        lines = dict(re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE))
        if lines.get("Name") == "slurmctld" and int(lines["Uid"].split()[1]) == uid:
            groups = {*lines["Groups"].split(), lines["Gid"].split()[1]}
            yield file.parent.name, frozenset(map(int, groups))


def _slurm_user(config: Mapping[str, str]) -> str:
    return config.get("SlurmUser", "root").partition("(")[0]


def _slurm_uid(config: Mapping[str, str]) -> int | None:
    """Return the uid of SlurmUser; None: this host does not know that user."""
    try:
        return pwd.getpwnam(_slurm_user(config)).pw_uid
    except KeyError:
        return None


def _is_operator(user: str) -> bool:
    try:
        level = commands.run(("sacctmgr", "-nP", "show", "user", user, "format=AdminLevel"))
    except (SchedulerError, ToolMissing):
        return False
    return level.strip() in ("Operator", "Administrator")


def _controllers(site: Site, config: Mapping[str, str]) -> Findings:
    """Warn where several hosts run slurmctld and the store is a file on one of them."""
    hosts = [value for key, value in config.items() if key.startswith("SlurmctldHost")]
    if len(hosts) > 1 and Database(site.daemon.store).path is not None:
        yield warn(
            "controllers",
            f"{len(hosts)} hosts run slurmctld, and the store is a file of one of them",
            "the filter and a daemon on each, daemon.store in one PostgreSQL (docs/store.md)",
        )


def check_munge(config: Mapping[str, str]) -> Findings:
    """Check that munge on this host makes a credential that this host's munged accepts."""
    if shutil.which("munge") is None or shutil.which("unmunge") is None:
        return
    socket_option = re.search(r"socket=([^,\s]+)", config.get("AuthInfo", ""))
    socket_words = () if socket_option is None else ("--socket", socket_option[1])
    credential = run_bounded(("munge", "--no-input", *socket_words))
    decoded = (
        credential
        and credential.returncode == 0
        and run_bounded(("unmunge", *socket_words), credential.stdout)
    )
    if not decoded or decoded.returncode != 0:
        failed = decoded or credential
        reason = (
            "it hangs" if not failed else failed.stderr.decode("utf-8", "replace").strip()[:200]
        )
        yield fail(
            "munge",
            f"munge makes no credential that holds here: {reason}",
            "is munged running, with the cluster's key and the right clock? munge -n | unmunge",
        )


def _is_here(config: Mapping[str, str]) -> bool:
    """Return whether this host runs slurmctld, according to the host names in its configuration."""
    names = {socket.gethostname(), socket.gethostname().partition(".")[0], os.uname().nodename}
    hosts = [value for key, value in config.items() if key.startswith("SlurmctldHost")]
    return any(re.split(r"[(\s]", host)[0] in names for host in hosts)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
