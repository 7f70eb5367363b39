"""The submit filter: the path of its Lua file, its configuration, and checks of its
installation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.plugin.findings import Findings, fail, ok, warn
from berth.plugin.site.site import Site

FILTER_PATH = Path(__file__).with_name("job_submit.lua")
"""The Lua file to install beside ``slurm.conf``, or to load from the site's own job_submit.lua."""

CLIENT_FILTER_PATH = Path(__file__).with_name("cli_filter.lua")
"""The Lua file that sbatch, srun and salloc may load. It sets ``berth:off`` for jobs with options
that slurmctld does not pass to its Lua plugin.
"""

_CONFIG_PATH = "/etc/berth/filter.conf"
"""The filter's configuration file, unless BERTH_FILTER_CONFIG names another file."""


def filter_config(site: Site) -> str:
    """Return the text of ``filter.conf``: ``key = value`` lines that slurmctld's filter rereads
    while it runs.

    Raises UsageError for a value that contains # or a line break.
    """
    daemon = site.daemon
    values: dict[str, object] = {
        "socket": daemon.socket,
        "kill_switch": daemon.kill_switch,
        "deadline_ms": daemon.deadline_ms,
        "messages": site.show,
    }
    if site.auto_queue is not None:
        values["auto_partition"] = site.auto_queue
    lines = [f"# Written by `berth site slurm filter-config` from {site.source}"]
    for key, value in values.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if "#" in text or "\n" in text:
            raise UsageError(
                f"{key} {text!r} cannot stand in filter.conf",
                hint="choose a path without # and line ends",
            )
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


def check(site: Site) -> Findings:
    """Check for ``berth site doctor`` that the filter's configuration agrees with the site file."""
    from berth.plugin.daemon.app import uids_of  # noqa: PLC0415 - doctor only
    from berth.plugin.findings import READ, barred  # noqa: PLC0415

    path = Path(os.environ.get("BERTH_FILTER_CONFIG") or _CONFIG_PATH)
    advice = f"berth site slurm filter-config --site {site.source} > {path}"
    try:
        installed = path.read_text(errors="replace")
    except FileNotFoundError:
        text = f"{path} does not exist: the filter uses its defaults"
        yield warn("filter", text, advice)
        return
    for _, clause in barred(path, READ, uids_of(site) - {0, os.geteuid()}):
        text = f"{clause}: the filter uses its defaults"
        yield fail("filter", text, f"chmod o+r {path}, o+x {path.parent}")
    differences = ", ".join(_differences(_settings(installed), _settings(filter_config(site))))
    if differences:
        text = f"{path} does not agree with the site file: {differences}"
        yield warn("filter", text, advice)
    else:
        yield ok("filter", f"{path} agrees with the site file")


def _settings(text: str) -> dict[str, str]:
    """Return the settings by key; a line that is not ``key = value`` is a key with an empty
    value."""
    lines = (line.strip() for line in text.splitlines())
    parts = (line.partition("=") for line in lines if line and line[0] != "#")
    return {key.strip(): value.strip() for key, _, value in parts}


def _differences(installed: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    for key, value in wanted.items():
        if key not in installed:
            yield f"{key} is missing"
        elif installed[key] != value:
            yield f"{key} is {installed[key] or 'empty'}, not {value}"
    yield from (f"{key[:40]!r} is not of the site file" for key in installed if key not in wanted)


_PATIENCE_S = 10.0
_LIBRARIES = ("socket", "socket.unix", "cjson")
_LOADED = re.compile(r"""(?:dofile|loadfile)\s*\(?\s*["']([^"']+)["']""")
_SHOWN = 200


def check_lua_file(path: Path, interpreter: str | None = None) -> Findings:
    """Check that the file loaded by slurmctld is valid Lua, and is or loads this version's
    filter.
    """
    advice = f"cp {FILTER_PATH} {path}, or load it from yours (docs/slurm.md)"
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        yield fail("filter", f"there is no {path}: slurmctld needs it", advice)
        return
    except OSError as error:
        yield warn("filter", f"{path}: {error.strerror}", "as root: berth site doctor")
        return
    problem = None if interpreter is None else _syntax(interpreter, path)
    if problem is not None:
        yield fail("filter", f"{path} is no Lua: {problem}", "correct it: jobs are refused")
    elif text == FILTER_PATH.read_text():
        yield ok("filter", f"{path} is this version's filter")
    elif "Berth's submit filter" in text:
        yield warn("filter", f"{path} is another version's filter", advice)
    elif "berth" in text.lower():
        yield from _loading(path, text, advice)
    else:
        yield warn("filter", f"{path} does not load Berth's filter", advice)


def check_client_filter(path: Path) -> Findings:
    """Check that the client filter's file exists: without it sbatch, srun and salloc fail."""
    advice = f"cp {CLIENT_FILTER_PATH} {path}"
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        yield fail(
            "client filter",
            f"{path}: {error.strerror}: sbatch, srun and salloc end with an error on this host",
            f"{advice}, or take CliFilterPlugins out of slurm.conf",
        )
        return
    if text == CLIENT_FILTER_PATH.read_text():
        yield ok("client filter", f"{path} is this version's client filter")
    elif "Berth's client filter" in text:
        yield warn("client filter", f"{path} is another version's client filter", advice)


def _loading(path: Path, text: str, advice: str) -> Findings:
    """Check the files that the site's own Lua file loads: each must exist, and be this version's
    filter.
    """
    code = re.sub(r"--[^\n]*", "", text)
    for name in _LOADED.findall(code):
        loaded = Path(name)
        try:
            loaded_text = loaded.read_text(errors="replace")
        except OSError as error:
            yield fail(
                "filter", f"{path} loads {loaded}: {error.strerror}", f"correct it to {FILTER_PATH}"
            )
            return
        if "Berth's submit filter" in loaded_text and loaded_text != FILTER_PATH.read_text():
            yield warn("filter", f"{path} loads {loaded}, another version's filter", advice)
            return
    yield ok("filter", f"{path} is the site's own and names Berth's")


def check_libraries(plugin: Path) -> Findings:
    """Check that the Lua that Slurm's plugin is linked with has the libraries the filter needs."""
    interpreter = interpreter_of(plugin)
    if interpreter is None:
        return
    missing = [name for name in _LIBRARIES if not _loads(interpreter, name)]
    if missing:
        version = _lua_of(plugin)
        yield fail(
            "filter",
            f"Lua {version}, which slurmctld runs, has no {', '.join(missing)}: the filter leaves "
            "every job alone",
            f"install lua-socket and lua-cjson for Lua {version}",
        )


def interpreter_of(plugin: Path) -> str | None:
    """Return the path of a Lua interpreter of the plugin's version; None: this host has none."""
    version = _lua_of(plugin)
    return None if version is None else shutil.which(f"lua{version}")


def run_bounded(
    command: tuple[str, ...], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes] | None:
    """Run a command with a time limit of 10 s; None where it exceeds the limit or cannot be
    started.
    """
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _syntax(interpreter: str, path: Path) -> str | None:
    """Return the Lua compiler's error message for the file; None: no error. The file is not
    executed.
    """
    words = (interpreter, "-e", "assert(loadfile(io.read('*l')))")
    done = run_bounded(words, os.fsencode(path))
    if done is None or done.returncode == 0:
        return None
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["unknown"]
    return lines[0].rpartition("(command line):1: ")[2][:_SHOWN]


def _lua_of(plugin: Path) -> str | None:
    """Return the Lua version that the plugin is linked with, such as ``5.1``; None: not found."""
    try:
        match = re.search(rb"liblua-?(5\.\d)", plugin.read_bytes())
    except OSError:
        return None
    return None if match is None else match[1].decode()


def _loads(interpreter: str, name: str) -> bool:
    done = run_bounded((interpreter, "-e", f"require '{name}'"))
    return done is not None and done.returncode == 0
