"""Reads past jobs from accounting logs of PBS (OpenPBS, PBS Professional) and Torque.

A line is ``10/05/2026 14:03:11;E;4711.server;key=value key=value ...``; only records of a job's end
(``E``) are read. PBS polls the memory of the whole job (``resources_used.mem``), so the memory of a
node is known for jobs on one node only. A subjob of an array, ``4711[5].server``, is the job
``4711_5``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.progress import steps
from berth.pilot.run import Run
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable, checked_times, name_of

PBS = "pbs"
_LINE = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;(?P<kind>[A-Za-z]);(?P<id>[^;]*);(?P<rest>.*)")
_ID = re.compile(r"(?P<number>\d{1,18})(?:\[(?P<task>\d{0,18})\]|-(?P<old>\d{1,18}))?(?:\..*)?")
_KEY = re.compile(r'(?:^|\s)([A-Za-z_][\w.]*)=("[^"]*"(?=\s|$))?')
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2}(?:\.\d{1,9})?)")
_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)(b|w)", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_WORD_BYTES = 8
_CHUNK = re.compile(r"(?:(?P<count>\d{1,9}):)?(?P<parts>.*)")
_MOST = 2**31
_END = "E"
_SIGNAL = 256
"""PBS reports an exit by signal N as 256 + N; negative: PBS itself ended the job."""
_TIME_LIMIT = -29
_MEMORY_KILLS = frozenset((-27, -28))
"""Exit statuses of jobs that PBS killed for their virtual or real memory."""


def read_pbs(lines: Iterable[str], cluster: str) -> ReadJobs:
    """Return the jobs that ended, from an accounting log of PBS or Torque."""
    read = ReadJobs()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, text in steps("lines read", numbered):
        match = _LINE.fullmatch(text.strip())
        if match is None:
            read.refuse(number, text, "is no line of a PBS accounting log")
        elif match["kind"] == _END:
            read.take(number, text, lambda line: _job(line, cluster))
    return read


def _job(line: str, cluster: str) -> Run | None:
    match = _LINE.fullmatch(line.strip())
    identity = None if match is None else _ID.fullmatch(match["id"])
    if match is None or identity is None:
        raise Unreadable("its job id is not PBS's")
    if identity["task"] == "":
        return None  # the record of a whole array; its subjobs have records of their own
    fields = _fields(match["rest"])
    start_s, end_s = _moment(fields, "start"), _moment(fields, "end")
    submit_s = _moment(fields, "qtime") or _moment(fields, "ctime") or start_s
    if not start_s:
        return None
    elapsed_s = _seconds(fields.get("resources_used.walltime", ""))
    nodes, cores, gpus = _shape(fields)
    task = identity["task"] or identity["old"]
    memory = _bytes(fields.get("resources_used.mem", ""))
    asked = _bytes(fields.get("Resource_List.mem", ""))
    return Run(
        cluster=cluster,
        job_id=f"{identity['number']}_{task}" if task else identity["number"],
        user=name_of(fields.get("user", "")),
        account=name_of(fields.get("account", fields.get("project", fields.get("group", "")))),
        name=name_of(fields.get("jobname", "")),
        partition=name_of(fields.get("queue", "")),
        state=_state(fields),
        submit_s=start_s if submit_s is None else min(submit_s, start_s),
        start_s=start_s,
        end_s=end_s or 0.0,
        elapsed_s=checked_times(submit_s, start_s, end_s, elapsed_s),
        cores=cores,
        nodes=nodes,
        gpus=gpus,
        node_list=recorded_nodes(",".join(_hosts(fields.get("exec_host", "")))),
        cpu_time_s=_seconds(fields.get("resources_used.cput", "")),
        time_limit_s=_seconds(fields.get("Resource_List.walltime", "")) or None,
        request_bytes=None if asked is None else asked // nodes,
        peak_bytes=memory if nodes == 1 else None,
        peak_source="polled" if memory and nodes == 1 else "",
    )


def _fields(text: str) -> Mapping[str, str]:
    keys = list(_KEY.finditer(text))
    ends = [match.start() for match in keys[1:]] + [len(text)]
    found: dict[str, str] = {}
    for match, end in zip(keys, ends, strict=True):
        value = match[2] or text[match.end() : end].strip()
        found.setdefault(match[1], value.strip('"'))
    return found


def _moment(fields: Mapping[str, str], key: str) -> float | None:
    text = fields.get(key, "")
    return float(text) if re.fullmatch(r"\d{1,12}", text) else None


def _seconds(text: str) -> float | None:
    """Return ``26:00:05`` or plain seconds in seconds; None: no duration."""
    if re.fullmatch(r"\d{1,12}", text):
        return float(text)
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    return 3600.0 * int(match[1] or 0) + 60.0 * int(match[2]) + float(match[3])


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size = int(match[1]) << _UNITS[match[2].lower()]
    size *= _WORD_BYTES if match[3].lower() == "w" else 1
    return size if 0 < size < 2**60 else None


def _shape(fields: Mapping[str, str]) -> tuple[int, int, int | None]:
    """Return the numbers of nodes, cores and GPUs (None: no GPU) of a job. Raises Unreadable."""
    hosts = _hosts(fields.get("exec_host", ""))
    nodes = _count(fields, "Resource_List.nodect") or len(set(hosts)) or 1
    cores = _count(fields, "resources_used.ncpus") or _count(fields, "Resource_List.ncpus")
    if not cores:
        cores = sum(map(_cores_in, filter(None, fields.get("exec_host", "").split("+")))) or nodes
    gpus = _count(fields, "Resource_List.ngpus") or _asked_gpus(fields)
    if max(nodes, cores, gpus) >= _MOST:
        raise Unreadable("more nodes or cores than can be")
    return nodes, cores, gpus or None


def _cores_in(place: str) -> int:
    """Return the cores in a part of exec_host: ``n1/0*4`` (PBS), ``n1/0-3,8`` or ``n1/0`` (Torque,
    which may name a host once for each core)."""
    slots = place.partition("/")[2]
    _, star, count = slots.partition("*")
    if star:
        return int(count) if re.fullmatch(r"\d{1,9}", count) else 1
    cores = 0
    for part in slots.split(","):
        limits = re.fullmatch(r"(\d{1,9})-(\d{1,9})", part)
        cores += 1 if limits is None else max(int(limits[2]) - int(limits[1]) + 1, 1)
    return cores


def _asked_gpus(fields: Mapping[str, str]) -> int:
    """Return the GPUs in a request such as ``2:ncpus=8:ngpus=4`` or ``nodes=2:ppn=4:gpus=1``."""
    total = 0
    request = fields.get("Resource_List.select", fields.get("Resource_List.nodes", ""))
    for chunk in request.split("+"):
        match = _CHUNK.fullmatch(chunk)
        each = re.search(r"(?:^|:)n?gpus=(\d{1,6})", chunk)
        if match is not None and each is not None:
            total += int(match["count"] or 1) * int(each[1])
    return total


def _count(fields: Mapping[str, str], key: str) -> int | None:
    text = fields.get(key, "")
    return int(text) if re.fullmatch(r"\d{1,12}", text) else None


def _hosts(text: str) -> tuple[str, ...]:
    names = (part.partition("/")[0].partition(":")[0] for part in text.split("+"))
    return tuple(dict.fromkeys(name for name in names if name))


def _state(fields: Mapping[str, str]) -> str:
    text = fields.get("Exit_status", "")
    status = int(text) if re.fullmatch(r"-?\d{1,9}", text) else 0
    if status == _TIME_LIMIT or (status == _SIGNAL + 15 and _over_limit(fields)):
        return "timeout"
    if status in _MEMORY_KILLS:
        return "out-of-memory"
    return "completed" if status == 0 else "failed"


def _over_limit(fields: Mapping[str, str]) -> bool:
    ran_s = _seconds(fields.get("resources_used.walltime", ""))
    limit_s = _seconds(fields.get("Resource_List.walltime", ""))
    return ran_s is not None and limit_s is not None and ran_s >= limit_s


READERS = (
    FileReader("pbs", Purpose.PAST_JOBS, (
        FileKind("an accounting log of PBS or Torque", "pbs",
                 line=r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];[^;\n]*;"),
    ), lambda lines, cluster, **_: read_pbs(lines, cluster)),
)  # fmt: skip
