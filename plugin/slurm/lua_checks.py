"""For ``berth doctor``: the Lua file that slurmctld loads, and the Lua that it is run by."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.slurm.filter import CLIENT_FILTER_PATH, FILTER_PATH

_PATIENCE_S = 10.0
_LIBRARIES = ("socket", "socket.unix", "cjson")
_LOADED = re.compile(r"""(?:dofile|loadfile)\s*\(?\s*["']([^"']+)["']""")
_SHOWN = 200


def check_lua_file(path: Path, interpreter: str | None = None) -> Findings:
    """Is the file that slurmctld loads this Berth's, or does it load one? And is it Lua?"""
    advice = f"cp {FILTER_PATH} {path}, or load it from yours (docs/slurm.md)"
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        yield Finding("filter", Status.FAIL, f"there is no {path}: slurmctld needs it", advice)
        return
    except OSError as error:
        yield Finding("filter", Status.WARN, f"{path}: {error.strerror}", "as root: berth doctor")
        return
    problem = None if interpreter is None else _syntax(interpreter, path)
    if problem is not None:
        yield Finding(
            "filter", Status.FAIL, f"{path} is no Lua: {problem}", "correct it: jobs are refused"
        )
    elif text == FILTER_PATH.read_text():
        yield Finding("filter", Status.OK, f"{path} is this version's filter")
    elif "Berth's submit filter" in text:
        yield Finding("filter", Status.WARN, f"{path} is another version's filter", advice)
    elif "berth" in text.lower():
        yield from _loading(path, text, advice)
    else:
        yield Finding("filter", Status.WARN, f"{path} does not load Berth's filter", advice)


def check_client_filter(path: Path) -> Findings:
    """Is the file there that sbatch, srun and salloc load? Without it they end with an error."""
    advice = f"cp {CLIENT_FILTER_PATH} {path}"
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        yield Finding(
            "client filter",
            Status.FAIL,
            f"{path}: {error.strerror}: sbatch, srun and salloc end with an error on this host",
            f"{advice}, or take CliFilterPlugins out of slurm.conf",
        )
        return
    if text == CLIENT_FILTER_PATH.read_text():
        yield Finding("client filter", Status.OK, f"{path} is this version's client filter")
    elif "Berth's client filter" in text:
        yield Finding(
            "client filter", Status.WARN, f"{path} is another version's client filter", advice
        )


def _loading(path: Path, text: str, advice: str) -> Findings:
    """The site's own file: what it loads must be there, and be this version's."""
    code = re.sub(r"--[^\n]*", "", text)
    for name in _LOADED.findall(code):
        loaded = Path(name)
        try:
            found = loaded.read_text(errors="replace")
        except OSError as error:
            yield Finding(
                "filter",
                Status.FAIL,
                f"{path} loads {loaded}: {error.strerror}",
                f"correct it to {FILTER_PATH}",
            )
            return
        if "Berth's submit filter" in found and found != FILTER_PATH.read_text():
            yield Finding(
                "filter", Status.WARN, f"{path} loads {loaded}, another version's filter", advice
            )
            return
    yield Finding("filter", Status.OK, f"{path} is the site's own and names Berth's")


def check_libraries(plugin: Path) -> Findings:
    """Has the Lua that the plugin is linked with the libraries that the filter needs?"""
    interpreter = interpreter_of(plugin)
    if interpreter is None:
        return
    missing = [name for name in _LIBRARIES if not _loads(interpreter, name)]
    if missing:
        version = _lua_of(plugin)
        yield Finding(
            "filter",
            Status.FAIL,
            f"Lua {version}, which slurmctld runs, has no {', '.join(missing)}: the filter leaves "
            "every job alone",
            f"install lua-socket and lua-cjson for Lua {version}",
        )


def interpreter_of(plugin: Path) -> str | None:
    """A Lua of the plugin's version; None: this host has no such command."""
    version = _lua_of(plugin)
    return None if version is None else shutil.which(f"lua{version}")


def run_bounded(
    command: tuple[str, ...], given: bytes = b""
) -> subprocess.CompletedProcess[bytes] | None:
    """A command that may hang; None where it does, or cannot be started."""
    try:
        return subprocess.run(
            command, input=given, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _syntax(interpreter: str, path: Path) -> str | None:
    """What keeps the file from being compiled; it is not run."""
    words = (interpreter, "-e", "assert(loadfile(io.read('*l')))")
    done = run_bounded(words, os.fsencode(path))
    if done is None or done.returncode == 0:
        return None
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["unknown"]
    return lines[0].rpartition("(command line):1: ")[2][:_SHOWN]


def _lua_of(plugin: Path) -> str | None:
    """``5.1``, by the library's name inside the plugin; None: not found."""
    try:
        found = re.search(rb"liblua-?(5\.\d)", plugin.read_bytes())
    except OSError:
        return None
    return None if found is None else found[1].decode()


def _loads(interpreter: str, name: str) -> bool:
    done = run_bounded((interpreter, "-e", f"require '{name}'"))
    return done is not None and done.returncode == 0
