"""For ``berth doctor``: what of Slurm's own configuration keeps Berth from serving its jobs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.site.site import Site
from berth.plugin.slurm import commands
from berth.plugin.slurm.configuration import listed, parse_configuration
from berth.plugin.slurm.filter import FILTER_PATH

OLDEST, NEWEST = (22, 5), (26, 5)
"""Versions that the filter is tested with, and all between."""
APART_S = 5.0
"""Clocks further apart than this: munge refuses at 300 s, expected starts are wrong before."""
_MUNGE_S = 10.0
_RECONFIGURE = "add it to slurm.conf, then scontrol reconfigure"
_LIBRARIES = ("socket", "socket.unix", "cjson")
_IN_ERA = "%Y-%m-%dT%H:%M:%S"


def check_setup(site: Site) -> Findings:
    """Every check; those of files only where this host is slurmctld's."""
    asked_s = time.time()
    text = commands.run(("scontrol", "show", "config"))
    config = parse_configuration(text)
    if "ClusterName" not in config:
        yield Finding(
            "slurm.conf", Status.WARN, "scontrol show config wrote nothing that can be read"
        )
        return
    yield from _version(config)
    yield from _clock(text, asked_s)
    yield from _plugins(config)
    yield from _accounting(site, config)
    yield from _selection(site, config)
    if config.get("AuthType", "auth/munge") == "auth/munge":
        yield from check_munge(config)


def _version(config: Mapping[str, str]) -> Findings:
    found = re.match(r"(\d+)\.(\d+)", config.get("SLURM_VERSION", ""))
    if found is None:
        return
    version = (int(found[1]), int(found[2]))
    if not OLDEST <= version <= NEWEST:
        span = f"{OLDEST[0]}.{OLDEST[1]:02d} to {NEWEST[0]}.{NEWEST[1]:02d}"
        yield Finding(
            "version",
            Status.WARN,
            f"Slurm {config['SLURM_VERSION']}: the filter is tested with {span}",
            'try it in mode = "shadow" first',
        )


def _clock(text: str, asked_s: float) -> Findings:
    """The first line tells slurmctld's time when it answered, in the local time zone."""
    found = re.match(r"Configuration data as of (\S+)", text)
    if found is None:
        return
    try:
        there_s = datetime.strptime(found[1], _IN_ERA).astimezone().timestamp()
    except ValueError:
        return
    apart_s = there_s - asked_s
    if abs(apart_s) > APART_S:
        side = "ahead of" if apart_s > 0 else "behind"
        yield Finding(
            "clock",
            Status.WARN,
            f"slurmctld's clock is {abs(apart_s):.0f} s {side} this host's",
            "set both by NTP (chronyc tracking)",
        )


def _plugins(config: Mapping[str, str]) -> Findings:
    if "lua" not in listed(config, "JobSubmitPlugins"):
        yield Finding(
            "slurm.conf",
            Status.WARN,
            "JobSubmitPlugins has no lua: the filter is never asked",
            f"JobSubmitPlugins=lua: {_RECONFIGURE}",
        )
        return
    if not _is_here(config):
        return
    folders = [Path(part) for part in config.get("PluginDir", "").split(":") if part]
    plugin = next(filter(_there, (folder / "job_submit_lua.so" for folder in folders)), None)
    if plugin is None and any(folder.is_dir() for folder in folders):
        yield Finding(
            "slurm.conf",
            Status.FAIL,
            f"job_submit_lua.so is not in {config['PluginDir']}: slurmctld will not start again",
            "install Slurm's Lua plugin, or take lua out of JobSubmitPlugins",
        )
    elif plugin is not None:
        yield from check_libraries(plugin)
    yield from check_lua_file(Path(config.get("SLURM_CONF", "")).parent / "job_submit.lua")


def check_lua_file(path: Path) -> Findings:
    """Is the file that slurmctld loads this Berth's, or does it load one?"""
    advice = f"cp {FILTER_PATH} {path}, or load it from yours (docs/slurm.md)"
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        yield Finding("filter", Status.FAIL, f"there is no {path}: slurmctld needs it", advice)
        return
    except OSError as error:
        yield Finding("filter", Status.WARN, f"{path}: {error.strerror}", "as root: berth doctor")
        return
    if text == FILTER_PATH.read_text():
        yield Finding("filter", Status.OK, f"{path} is this version's filter")
    elif "Berth's submit filter" in text:
        yield Finding("filter", Status.WARN, f"{path} is another version's filter", advice)
    elif "berth" in text.lower():
        yield Finding("filter", Status.OK, f"{path} is the site's own and names Berth's")
    else:
        yield Finding("filter", Status.WARN, f"{path} does not load Berth's filter", advice)


def check_libraries(plugin: Path) -> Findings:
    """Has the Lua that the plugin is linked with the libraries that the filter needs?"""
    version = _lua_of(plugin)
    interpreter = None if version is None else shutil.which(f"lua{version}")
    if interpreter is None:
        return
    missing = [name for name in _LIBRARIES if not _loads(interpreter, name)]
    if missing:
        yield Finding(
            "filter",
            Status.FAIL,
            f"Lua {version}, which slurmctld runs, has no {', '.join(missing)}: the filter leaves "
            "every job alone",
            f"install lua-socket and lua-cjson for Lua {version}",
        )


def _lua_of(plugin: Path) -> str | None:
    """``5.1``, by the library's name inside the plugin; None: not found."""
    try:
        found = re.search(rb"liblua-?(5\.\d)", plugin.read_bytes())
    except OSError:
        return None
    return None if found is None else found[1].decode()


def _loads(interpreter: str, name: str) -> bool:
    done = _run((interpreter, "-e", f"require '{name}'"))
    return done is not None and done.returncode == 0


def _accounting(site: Site, config: Mapping[str, str]) -> Findings:
    remembered = re.match(r"\d+", config.get("MinJobAge", ""))
    store = config.get("AccountingStorageType", "")
    every_s = site.daemon.outcomes_refresh_s
    if "slurmdbd" not in store and remembered and 0 < int(remembered[0]) <= 2 * every_s:
        yield Finding(
            "slurm.conf",
            Status.WARN,
            f"without slurmdbd, jobs are forgotten {remembered[0]} s after their end "
            "(MinJobAge): some outcomes will be missed",
            f"MinJobAge={4 * every_s:.0f}, or slurmdbd",
        )
    if config.get("JobAcctGatherType", "").endswith(("none", "(null)")):
        yield Finding(
            "slurm.conf",
            Status.WARN,
            "JobAcctGatherType is none: nobody measures how much memory jobs need",
            f"JobAcctGatherType=jobacct_gather/cgroup: {_RECONFIGURE}",
        )


def _selection(site: Site, config: Mapping[str, str]) -> Findings:
    if config.get("SelectType", "").endswith("/linear"):
        yield Finding(
            "slurm.conf",
            Status.WARN,
            "SelectType is select/linear: every job gets whole nodes, whatever it is given",
            "SelectType=select/cons_tres",
        )
    if any(c.gres for c in site.candidates) and "gpu" not in listed(config, "GresTypes"):
        yield Finding(
            "slurm.conf",
            Status.FAIL,
            "the site file has places with GPUs, and GresTypes has no gpu: such jobs are refused",
            f"GresTypes=gpu: {_RECONFIGURE}",
        )


def check_munge(config: Mapping[str, str]) -> Findings:
    """Can this user make a credential, and does this host's munged accept it?"""
    if shutil.which("munge") is None or shutil.which("unmunge") is None:
        return
    at = re.search(r"socket=([^,\s]+)", config.get("AuthInfo", ""))
    where = () if at is None else ("--socket", at[1])
    made = _run(("munge", "--no-input", *where))
    read = made and made.returncode == 0 and _run(("unmunge", *where), made.stdout)
    if not read or read.returncode != 0:
        last = read or made
        said = "it hangs" if not last else last.stderr.decode("utf-8", "replace").strip()[:200]
        yield Finding(
            "munge",
            Status.FAIL,
            f"munge makes no credential that holds here: {said}",
            "is munged running, with the cluster's key and the right clock? munge -n | unmunge",
        )


def _run(command: tuple[str, ...], given: bytes = b"") -> subprocess.CompletedProcess[bytes] | None:
    """None where it cannot be started or hangs."""
    try:
        return subprocess.run(
            command, input=given, capture_output=True, timeout=_MUNGE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _is_here(config: Mapping[str, str]) -> bool:
    """Whether this host runs slurmctld, by its names in the configuration."""
    names = {socket.gethostname(), socket.gethostname().partition(".")[0], os.uname().nodename}
    hosts = [value for key, value in config.items() if key.startswith("SlurmctldHost")]
    return any(re.split(r"[(\s]", host)[0] in names for host in hosts)


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
