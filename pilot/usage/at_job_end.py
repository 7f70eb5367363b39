"""Reads what a job used when it ends, and leaves one line of JSON in the node's spool.

It runs as Slurm's Epilog or TaskEpilog, or in Flux's shell, on every job: so it starts in a few
milliseconds, never fails, and never holds a node up. Three things follow:

- only light modules are imported. ``json`` and ``re`` alone would take as long as all of this;
- a child process reads and writes. The parent waits for it at most ``DEADLINE_S`` and exits with
  status 0 whatever happened, also where the child hangs in a driver or on a file system;
- the line is written to a hidden file and renamed: a reader never sees half of it.

``berth pilot usage --script`` prints the script that starts it (``python -I -S``, this file's
folder appended to ``sys.path``).
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes as long to import as all that is needed here
    from collections.abc import Mapping
    from typing import Any

    Fields = dict[str, Any]
    Environment = Mapping[str, str]

SCHEMA = "berth.usage/1"
SPOOL = "/shared/berth-spool"
CGROUPS = "/sys/fs/cgroup"
DEADLINE_S = 0.035
"""Longest wait for the reading, in seconds; the start of Python is not in it."""
MOST_BYTES = 65_536
"""Most bytes read of one file."""
LONGEST_NAME = 200
SUFFIX = ".usage"
_BATCH_STEP = "4294967291"
_GPUS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
_PLAIN = frozenset("_-.+@=,")
_LIMIT = 2**63
_MOST_ANCESTORS = 8


def main() -> None:
    """Read and write in a child process, and exit with status 0 within the deadline."""
    try:
        import select  # inside, so that its absence is no failure either

        finished, child_end = os.pipe()
        child = os.fork()
        if child == 0:
            _in_child(finished)
        os.close(child_end)
        poll = select.poll()
        poll.register(finished, select.POLLIN | select.POLLHUP)
        if poll.poll(1000.0 * _deadline_s(os.environ)):
            os.waitpid(child, 0)
        else:
            os.kill(child, 9)
    except BaseException:  # noqa: S110 (a failing Epilog drains its node)
        pass
    os._exit(0)


def _in_child(unused: int) -> None:
    """Measure and write; never return. What is written to a job's output would be its user's."""
    try:
        os.close(unused)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        spool = os.environ.get("BERTH_USAGE_SPOOL") or SPOOL
        fields = measured(os.environ)
        if fields is None:
            os._exit(0)
        if has_gpus(os.environ):
            # Written first without it: a driver may take longer than the deadline.
            write({**fields, "lacks": [*fields["lacks"], "nvml: no answer in time"]}, spool)
            add_gpus(fields, os.environ)
        write(fields, spool)
    except BaseException:  # noqa: S110
        pass
    os._exit(0)


def _deadline_s(environ: Environment) -> float:
    try:
        return min(max(float(environ.get("BERTH_USAGE_DEADLINE_MS", "")) / 1000.0, 0.001), 10.0)
    except ValueError:
        return DEADLINE_S


def measured(environ: Environment) -> Fields | None:
    """Return what the job of this environment used on this node; None: no job is named, or this
    is a task that another task's line covers."""
    job = name_in(environ, "SLURM_JOB_ID") or name_in(environ, "FLUX_JOB_ID")
    if not job or environ.get("SLURM_LOCALID", "0") != "0":
        return None
    array, task = name_in(environ, "SLURM_ARRAY_JOB_ID"), name_in(environ, "SLURM_ARRAY_TASK_ID")
    step = name_in(environ, "SLURM_STEP_ID")
    fields: Fields = {
        "schema": SCHEMA,
        "scheduler": "slurm" if "SLURM_JOB_ID" in environ else "flux",
        "cluster": name_in(environ, "SLURM_CLUSTER_NAME"),
        "job": job,
        "array_task": f"{array}_{task}" if array and task else "",
        "step": "batch" if step == _BATCH_STEP else step,
        "node": name_in(environ, "SLURMD_NODENAME") or os.uname().nodename[:LONGEST_NAME],
        "written_s": round(time.time(), 3),
    }
    lacks: list[str] = []
    read_group(fields, lacks, job, environ)
    fields["lacks"] = lacks
    return fields


def name_in(environ: Environment, key: str) -> str:
    """Return the variable's value where it is a plain name, such as an id or a host name."""
    value = environ.get(key, "")
    plain = len(value) <= LONGEST_NAME and all(c.isalnum() or c in _PLAIN for c in value)
    return value if plain else ""


# The control group


def read_group(
    fields: Fields,
    lacks: list[str],
    job: str,
    environ: Environment,
) -> None:
    """Add what the kernel counted for the job's control group (version 2)."""
    root = cgroup_root(environ)
    if not os.path.exists(root + "/cgroup.controllers"):
        version_1 = os.path.isdir(root + "/memory")
        lacks.append("cgroup: version 1 is not supported" if version_1 else "cgroup: none mounted")
        return
    group = job_group(root, job, environ)
    if group is None:
        lacks.append("cgroup: the job's group is gone")
        return
    peak = whole(content(group + "/memory.peak").strip())
    if peak is None:
        lacks.append("cgroup: no memory.peak (Linux before 5.19, or no memory controller)")
    else:
        fields["memory_peak_bytes"] = peak
    memory = pairs(content(group + "/memory.stat"))
    if "file" in memory:
        fields["memory_cache_bytes"] = max(memory["file"] - memory.get("shmem", 0), 0)
    events = pairs(content(group + "/memory.events"))
    if "oom_kill" in events:
        fields["oom_kills"] = events["oom_kill"]
    cpu = pairs(content(group + "/cpu.stat"))
    for key in ("usage_usec", "user_usec", "system_usec", "throttled_usec"):
        if key in cpu:
            fields["cpu_" + key] = cpu[key]
    io = pairs(content(group + "/io.stat").replace(b"=", b" "), one_a_line=False)
    for key, name in (("rbytes", "io_read_bytes"), ("wbytes", "io_written_bytes")):
        if key in io:
            fields[name] = io[key]
    for resource in ("cpu", "memory", "io"):
        stalled = stalled_usec(content(group + "/" + resource + ".pressure"))
        if stalled is not None:
            fields[resource + "_stalled_usec"] = stalled


def cgroup_root(environ: Environment) -> str:
    """Return the folder where control groups of version 2 are mounted."""
    return environ.get("BERTH_USAGE_CGROUPS") or CGROUPS


def job_group(root: str, job: str, environ: Environment) -> str | None:
    """Return the folder of the job's control group: the one that this process is in, or where
    Slurm makes it; None: there is none (any more)."""
    wanted = "job_" + job
    own = next(
        (
            line[3:].decode("utf-8", "replace")
            for line in content(environ.get("BERTH_USAGE_OWN_GROUP") or "/proc/self/cgroup").split(
                b"\n"
            )
            if line.startswith(b"0::/")
        ),
        "",
    )
    parts = own.split("/")
    if wanted in parts:
        places = ["/".join(parts[: parts.index(wanted) + 1])]
    elif "FLUX_JOB_ID" in environ and len(parts) > 1 and parts[-1]:
        places = [own]
    else:
        node = name_in(environ, "SLURMD_NODENAME")
        scopes = ("slurmstepd.scope", node + "_slurmstepd.scope")
        places = ["/system.slice/" + scope + "/" + wanted for scope in scopes]
    return next((root + place for place in places if os.path.isdir(root + place)), None)


def content(path: str) -> bytes:
    """Return the file's first ``MOST_BYTES``; nothing where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(handle, MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(handle)


def whole(text: bytes) -> int | None:
    """Return the text as a number of at least 0 that fits 63 bits; None: it is none."""
    if not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if value < _LIMIT else None


def pairs(text: bytes, *, one_a_line: bool = True) -> dict[str, int]:
    """Return the numbers that follow a word, summed by that word: ``usage_usec 12``.

    With ``one_a_line`` false, several pairs of a line count (``8:0 rbytes 1 wbytes 2``).
    """
    totals: dict[str, int] = {}
    for line in text.split(b"\n"):
        words = line.split()
        for at in range(0 if one_a_line else 1, min(len(words) - 1, 1 if one_a_line else 40)):
            value = whole(words[at + 1])
            if value is not None and words[at].replace(b"_", b"").isalpha():
                key = words[at].decode("ascii", "replace")
                totals[key] = min(totals.get(key, 0) + value, _LIMIT - 1)
    return totals


def stalled_usec(text: bytes) -> int | None:
    """Return for how long some task stood still: ``total`` of the line ``some`` of PSI."""
    for line in text.split(b"\n"):
        words = line.split()
        if words and words[0] == b"some" and words[-1].startswith(b"total="):
            return whole(words[-1][6:])
    return None


# The GPUs


def has_gpus(environ: Environment) -> bool:
    """Return whether the job has GPUs on this node."""
    return any(environ.get(key) for key in (*_GPUS, "CUDA_VISIBLE_DEVICES"))


def add_gpus(fields: Fields, environ: Environment) -> None:
    """Add what NVML's accounting recorded of the job's GPUs."""
    numbers = next((environ[key] for key in _GPUS if environ.get(key)), "")
    indices = [int(number) for number in numbers.split(",") if number.isdigit()]
    try:
        if __package__:
            from berth.pilot.usage import gpu_accounting
        else:
            import gpu_accounting  # type: ignore[import-not-found, no-redef]

        fields["gpus"], problem = gpu_accounting.processes(indices, started_at(environ))
    except Exception as error:
        problem = type(error).__name__
    if problem:
        fields["lacks"].append("nvml: " + problem)


def started_at(environ: Environment) -> float | None:
    """Return when the job started here by this node's clock (Unix time), as well as that is known.

    The slurmstepd above this process was started with the job or its step, so its start is by this
    node's clock. ``SLURM_JOB_START_TIME`` is by the controller's.
    """
    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        before, _, after = content(f"/proc/{pid}/stat").rpartition(b")")
        words = after.split()
        if len(words) < 20:
            break
        if b"(slurmstepd" in before:
            age_s = float(content("/proc/uptime").split()[0]) - int(words[19]) / os.sysconf(
                "SC_CLK_TCK"
            )
            return time.time() - age_s
        pid = int(words[1])
    start = whole(environ.get("SLURM_JOB_START_TIME", "").encode())
    return None if start is None else float(start)


# The line


def write(fields: Fields, spool: str) -> str:
    """Write the line as a file of its own, whole or not at all; return its path. Raises OSError."""
    parts = (fields["cluster"], fields["job"], fields["step"], fields["node"])
    name = "-".join(str(part) for part in parts if part)[:LONGEST_NAME]
    hidden = f"{spool}/.{name}.{os.getpid()}"
    handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        os.fchmod(handle, 0o644)
        text = (as_json(fields) + "\n").encode("utf-8", "replace")
        if os.write(handle, text) != len(text):
            raise OSError("the spool is full")
        os.close(handle)
        os.rename(hidden, f"{spool}/{name}{SUFFIX}")
    except OSError:
        os.unlink(hidden)
        raise
    return f"{spool}/{name}{SUFFIX}"


def as_json(value: object) -> str:
    """Return the value as JSON. Texts must be plain: this module puts no other ones in."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {as_json(of)}' for key, of in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(as_json(part) for part in value) + "]"
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return repr(value)
    plain = "".join(c if c.isprintable() and c not in '"\\' else " " for c in str(value))
    return f'"{plain}"'


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
