"""Reads what sacct records of jobs, Slurm 22.05 to 26.05: the jobs and what their steps used.

Columns are found by name, in any order; columns that a version or a site lacks may be absent. A job
needs JobID, User, State, Start and End. The lines of steps (``12.batch``) give peak memory.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from berth.pilot import progress
from berth.pilot.errors import DocumentError
from berth.pilot.run import ENDED, Run
from berth.plugin.history.matching import JobDescription
from berth.plugin.history.usage_files import jobstats
from berth.plugin.history.usage_files.reading import ReadUsages
from berth.plugin.scheduler import stamped_decision, unmoved_by_filter
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.scheduler.past_jobs import SINGLETON, ReadJobs, Unreadable, checked_times, name_of
from berth.plugin.slurm.records import (
    Record,
    bytes_of,
    count,
    duration_s,
    gpu_type_in,
    gpus_in,
    gres,
    moment_s,
    state_of,
)
from berth.plugin.slurm.step_usage import StepUsage
from berth.plugin.slurm.submitted import (
    arguments_in_line,
    dependencies_in_line,
    texts_in_line,
)

COLUMNS = (
    "JobID", "User", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "AllocCPUS", "NNodes", "NTasks", "ReqMem", "MaxRSS", "AllocTRES",
    "TRESUsageInMax", "TRESUsageInAve", "TRESUsageInTot", "TRESUsageOutTot", "NodeList",
    "TotalCPU", "ConsumedEnergyRaw", "AdminComment", "JobName",
)  # fmt: skip
"""The columns that an accounting file should have. JobName is last, because users choose it and it
may contain ``|``.
"""
ALL_COLUMNS = (*COLUMNS, "JobIDRaw", "ExitCode", "Comment", "SubmitLine")
"""The columns that Berth requests from a running Slurm's sacct."""
_NEEDED = ("JobID", "User", "State", "Start", "End")
BROKEN_SUMMARIES = "jobs have a jobstats summary (AdminComment) that cannot be read"
INCOMPLETE = (
    "jobs ran steps whose memory together cannot be told (columns MaxRSS, NTasks, Start, End and "
    "NodeList of every step): their peak is unknown"
)
IMPOSSIBLE = "jobs have a recorded GPU utilisation below 0 or above 100 %: it does not count"
OTHER_CLUSTERS = "jobs are of other clusters (column Cluster): left out"
_NEVER = frozenset(("", "Unknown", "None", "N/A"))
_FLAG_32, _FLAG_64 = 2**31, 2**63
"""Slurm's flag MEM_PER_CPU in numbers of 32 and of 64 bits."""
_FLAGGED_BYTES = 2.0**50
"""No node has so much memory: a larger request per node has the flag in it."""
_JOB = re.compile(r"\d{1,18}(?:_\d{1,18}|\+\d{1,9})?")
_PENDING_TASKS = re.compile(r"\d{1,18}_\[.*")
"""The tasks of an array that have not begun, in one line."""
_MINUTE_S = 60.0
_MOST = 2**31


def joined(text: str, bar: str, columns: int) -> Iterator[str]:
    """Yield the records of sacct's output: lines are joined where a field contains a line break.

    The first field is a job's id, which contains none.
    """
    parts: list[str] = []
    bars = 0
    for line in text.split("\n"):
        more = line.count(bar)
        if parts and more and (not bars or bars >= columns - 1):
            yield "\n".join(parts)
            parts, bars = [], 0
        parts.append(line)
        bars += more
    yield "\n".join(parts)


def read_sacct(
    lines: Iterable[str],
    cluster: str,
    *,
    source: str,
    utc: bool = False,
    bar: str = "|",
    every: bool = False,
) -> ReadJobs:
    """Read sacct's lines, with times in this machine's time zone or in UTC.

    ``bar``: the separator between fields; ``every``: also jobs that have not run or not ended, and
    times as they are written. Raises DocumentError where the header is missing.
    """
    reading, header = RecordReading(cluster, source, utc=utc, every=every), None
    for number, raw in enumerate(progress.steps("lines read", list(lines)), 1):
        line = raw.rstrip("\r\n")
        if not line.strip():
            continue
        if header is None:
            header = _header(line, source, bar)
            continue
        parts = line.split(bar)
        if parts[0] == header[0] and parts[: len(header)] == list(header):
            continue  # the header of a second file, appended to the first
        try:
            fields = _fields(parts, header, bar)
        except Unreadable as error:
            reading.read.refuse(number, line, error)
        else:
            reading.take(number, line, fields)
    if header is None:
        raise DocumentError(source, "is empty: sacct writes a header unless it is given -n")
    return reading.done()


class RecordReading:
    """Reads records of jobs and steps, one mapping of sacct's columns each.

    Two clusters give one id to different jobs: where records name several clusters, those of
    ``cluster`` alone are read.
    """

    def __init__(self, cluster: str, source: str, *, utc: bool, every: bool = False) -> None:
        self._cluster, self._source, self._utc, self._every = cluster, source, utc, every
        self._now_s = time.time()
        self._jobs_of: Counter[str] = Counter()
        """Number of jobs by the cluster that their records name."""
        self._begin("", ReadJobs())

    def _begin(self, of: str, read: ReadJobs) -> None:
        self._of, self.read, self._summaries = of, read, ReadUsages()
        self._steps: dict[str, StepUsage] = {}

    def take(self, number: int, line: str, fields: Record) -> None:
        """Add the job or step in ``fields``; ``number`` and ``line`` name it in messages."""
        job_id, dot, _ = fields["JobID"].partition(".")
        of = fields.get("Cluster") or self._of
        if of != self._of and (of == self._cluster or not self._jobs_of):
            self._begin(of, ReadJobs(broken=self.read.broken, examples=self.read.examples))
        self._jobs_of[of] += not dot
        if of != self._of:
            return
        read = self.read
        if dot:
            self._steps.setdefault(job_id, StepUsage()).add(fields)
            return
        try:
            arguments = arguments_in_line(
                name_of(fields.get("JobName", "")), fields.get("SubmitLine", "")
            )
            known = arguments or JobDescription()
            told = run_of(job_id, fields, known, self._cluster, utc=self._utc)
            job = told if self._every else _ran(told, fields)
        except Unreadable as error:
            read.refuse(number, line, error)
            return
        if job is None:
            read.not_ended += 1
            return
        read.add(job)
        _note(job_id, fields, read)
        comment = fields.get("AdminComment", "")
        read.unmoved |= unmoved_by_filter(comment)
        if comment.startswith(jobstats.MARK):
            _add_summary(self._summaries, number, comment, job, self._now_s)
        if arguments is not None:
            read.with_arguments.add(job_id)

    def done(self) -> ReadJobs:
        """Return the jobs, with what their steps used. Raises DocumentError for jobs of several
        clusters of which none is called ``cluster``."""
        read, summaries = self.read, self._summaries
        others = self._jobs_of.total() - self._jobs_of[self._of]
        if others and self._of != self._cluster:
            raise DocumentError(
                self._source,
                f"has jobs of several clusters: {', '.join(sorted(self._jobs_of))}",
                hint=f"write a file for each (sacct -M {self._of}), or give one: --cluster NAME",
            )
        if others:
            read.changed[OTHER_CLUSTERS] = others
        _add_usage(read, self._steps)
        read.usages = summaries.usages
        read.changed |= summaries.left_out
        if summaries.broken:
            read.changed[BROKEN_SUMMARIES] = summaries.broken
        return read


def _add_summary(summaries: ReadUsages, number: int, comment: str, job: Run, now_s: float) -> None:
    try:
        usage = jobstats.usage_in(comment, job.cluster, job.job_id, now_s, job_nodes=job.nodes or 1)
    except Unreadable as error:
        summaries.refuse(f"line {number}", comment, error)
        return
    if usage is not None:
        summaries.add(usage)


def _add_usage(read: ReadJobs, steps: Mapping[str, StepUsage]) -> None:
    for job_id in steps.keys() & read.jobs.keys():
        job = read.jobs[job_id]
        used = steps[job_id].used(nodes=job.nodes or 1, gpus=job.gpus, elapsed_s=job.elapsed_s)
        source = "polled" if used.peak_bytes else ""
        read.jobs[job_id] = replace(job, **used._asdict(), peak_source=source)
    of_jobs = [usage for job_id, usage in steps.items() if job_id in read.jobs]
    for sentence, jobs in (
        (IMPOSSIBLE, sum(usage.impossible for usage in of_jobs)),
        (INCOMPLETE, sum(usage.incomplete for usage in of_jobs)),
    ):
        if jobs:
            read.changed[sentence] = jobs


def _header(line: str, source: str, bar: str) -> tuple[str, ...]:
    names = {name.lower(): name for name in (*ALL_COLUMNS, *_OLDER)}
    header = tuple(names.get(part.strip().lower(), part.strip()) for part in line.split(bar))
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise DocumentError(
            source,
            f"the header of sacct's output lacks {', '.join(missing)}",
            hint=f"write it with: sacct -a -P --noconvert -o {','.join(COLUMNS)}",
        )
    return header


_OLDER = ("Cluster", "Elapsed", "Timelimit", "NCPUS", "AllocNodes")


def _fields(parts: list[str], header: Sequence[str], bar: str) -> Record:
    if len(parts) == len(header) + 1 and not parts[-1]:
        parts.pop()  # sacct -p ends each line with a separator
    extra = len(parts) - len(header)
    if extra > 0 and "JobName" in header and "SubmitLine" not in header:
        at = header.index("JobName")
        parts[at : at + extra + 1] = [bar.join(parts[at : at + extra + 1])]
    if len(parts) != len(header):
        raise Unreadable(f"{len(parts)} fields where the header has {len(header)}")
    return dict(zip(header, map(str.strip, parts), strict=True))


def run_of(
    job_id: str, fields: Record, arguments: JobDescription, cluster: str, *, utc: bool
) -> Run:
    """Return the job in ``fields`` as it is written, also one that has not run or not ended.

    Raises Unreadable for an id that is no job's and for an unknown state.
    """
    if _PENDING_TASKS.fullmatch(job_id) is not None:
        job_id = job_id.partition("_")[0]
    if _JOB.fullmatch(job_id) is None:
        raise Unreadable("JobID is not a job's")
    state = state_of(fields["State"])
    if state == "unknown":
        raise Unreadable(f"the state {fields['State'][:30]!r} is not known")
    start_s, end_s = (moment_s(fields.get(name, ""), utc=utc) for name in ("Start", "End"))
    elapsed_s = _elapsed(fields)
    if elapsed_s is None:
        elapsed_s = 0.0 if start_s is None or end_s is None else end_s - start_s
    nodes = count((fields.get("NNodes") or fields.get("AllocNodes", "")).partition("-")[0])
    cores = count((fields.get("AllocCPUS") or fields.get("NCPUS", "")).partition("-")[0])
    if max(nodes or 1, cores or 1) >= _MOST:
        raise Unreadable("more nodes or cores than can be")
    raw_id, comment = fields.get("JobIDRaw", job_id), fields.get("AdminComment", "")
    allocated = fields.get("AllocTRES", "")
    return Run(
        cluster=cluster,
        job_id=job_id,
        raw_id="" if raw_id == job_id else raw_id[:64],
        user=name_of(fields["User"]),
        account=name_of(fields.get("Account", "")),
        name=name_of(fields.get("JobName", "")),
        arguments=arguments.arguments,
        similar=arguments.similar,
        partition=name_of(fields.get("Partition", "")),
        state=state,
        submit_s=moment_s(fields.get("Submit", ""), utc=utc),
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=cores,
        nodes=nodes,
        gpus=gpus_in(allocated) or _requested_gpus(fields.get("TresPerNode", ""), nodes),
        gpu_type=gpu_type_in(allocated),
        node_list=recorded_nodes(fields.get("NodeList", "")),
        cpu_time_s=duration_s(fields.get("TotalCPU")),
        energy_j=count(fields.get("ConsumedEnergyRaw", "")) or None,  # 0: it is not measured
        time_limit_s=_limit_s(fields),
        request_bytes=_request(fields.get("ReqMem", ""), cores or 1, nodes or 1),
        exit_status=_exit_status(fields.get("ExitCode", "")),
        decision=stamped_decision(comment) or ("" if comment else None),
    )


def _ran(job: Run, fields: Record) -> Run | None:
    """Return the job with at least a core, a node and its time of submission; None: it has not run
    or not ended. Raises Unreadable for times that cannot be."""
    if job.state not in ENDED or fields["Start"] in _NEVER or fields["End"] in _NEVER:
        return None
    if job.job_id != fields["JobID"].partition(".")[0]:
        return None
    for name, moment in (("Start", job.start_s), ("End", job.end_s), ("Submit", job.submit_s)):
        if moment is None and fields.get(name, "") not in _NEVER:
            raise Unreadable(f"{fields[name][:30]!r} is no time")
    checked_times(job.submit_s, job.start_s, job.end_s, job.elapsed_s)
    submit_s = job.start_s if job.submit_s is None else job.submit_s
    return replace(job, submit_s=submit_s, nodes=job.nodes or 1, cores=job.cores or 1)


def _exit_status(text: str) -> int | None:
    """Return the exit status as a shell reports it, from Slurm's ``1:0`` (status:signal) or the
    wait status that squeue 22.05 writes; None: unreadable.
    """
    wait_status = count(text)
    if wait_status is not None:
        status, signal = wait_status >> 8 & 0xFF, wait_status & 0x7F
    elif (match := re.fullmatch(r"(\d{1,3}):(\d{1,3})", text)) is not None:
        status, signal = int(match[1]), int(match[2])
    else:
        return None
    return 128 + signal if signal and not status else status


def _requested_gpus(by_node: str, nodes: int | None) -> int | None:
    """Return the requested GPUs of all nodes, from the request per node (``gres:gpu:h200:1`` or
    ``gres/gpu:h200:1``); None: no GPUs.
    """
    requested = by_node.replace("gres:", "").replace("gres/", "")
    return sum(gres(requested).values()) * (nodes or 1) or None


def _note(job_id: str, fields: Record, read: ReadJobs) -> None:
    """Record in ``read`` what else the fields say: what tells the job's program, and which jobs it
    waited for, according to its submit line."""
    texts = texts_in_line(
        name_of(fields.get("JobName", "")),
        fields.get("SubmitLine", ""),
        fields.get("Comment", ""),
    )
    if texts is not None:
        read.texts[job_id] = texts
    submitted_line = dependencies_in_line(fields.get("SubmitLine", ""))
    array, _, task = job_id.partition("_")
    after = [
        *submitted_line.after,
        *(f"{array_id}_{task}" if task else array_id for array_id in submitted_line.with_task),
    ]
    if submitted_line.singleton:
        after.append(SINGLETON)
    if after:
        read.after[job_id] = tuple(after)
    if submitted_line.at_once is not None and task:
        read.array_limits[array] = submitted_line.at_once
    read.not_followed += submitted_line.others


def _elapsed(fields: Record) -> float | None:
    raw = fields.get("ElapsedRaw", "")
    if raw:
        seconds = count(raw.removeprefix("-"))
        if seconds is None:
            raise Unreadable("ElapsedRaw is not a number")
        return -float(seconds) if raw.startswith("-") else float(seconds)
    return duration_s(fields.get("Elapsed"))


def _limit_s(fields: Record) -> float | None:
    minutes = count(fields.get("TimelimitRaw", ""))
    if minutes is not None:
        return _MINUTE_S * minutes or None
    return duration_s(fields.get("Timelimit")) or None


def _request(text: str, cores: int, nodes: int) -> int | None:
    """Return the requested memory per node in bytes; None: no request.

    ReqMem is the whole job's memory since Slurm 21.08; before, it is per node (n) or per core (c).
    Accounting of old versions may hold Slurm's own flag for "per core" within the number, which is
    then above 2,048 TiB (2^31 MiB).
    """
    number = text.rstrip("nc")
    form = text[len(number) :]
    in_mib = number[-1:].isdigit() or number.endswith("M")
    size: float = bytes_of(f"{number.rstrip('M')}M" if in_mib else number) or 0
    if not size or len(form) > 1:
        return None
    if size / (1 if form else max(nodes, 1)) >= _FLAGGED_BYTES:
        plain_mib = int(size) // 2**20 - (_FLAG_64 if size >= _FLAG_64 * 2.0**20 else _FLAG_32)
        if not in_mib or not 0 < plain_mib < _FLAG_32:
            return None
        size, form = float(plain_mib) * 2**20, "c"
    if form == "c":
        size *= cores / max(nodes, 1)
    elif form == "":
        size /= max(nodes, 1)
    return int(size) if size < 2**60 else None
