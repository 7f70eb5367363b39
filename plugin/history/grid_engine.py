"""Reads past jobs from the reports of ``qacct -j`` of Grid Engine (Sun, Univa, Son of, Open).

A report is a line of ``=`` and then ``key  value`` lines; times are local ones of the machine where
qacct ran. Peaks of virtual memory (``maxvmem``) are no peaks of memory: only Univa's ``maxrss`` of
a job on one node is read. Parts of a parallel job (``pe_taskid``) are in its own report.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Iterator, Mapping

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.run import Run
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable, checked_times, name_of

Report = Mapping[str, str]
_NONE = frozenset(("", "NONE", "undefined", "-/-"))
_TIMES = ("%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)B?")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SECONDS = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s?")
_LIMIT = re.compile(r"\bh_rt=(?:(?:(\d{1,6}):)?(\d{1,6}):)?(\d{1,9})\b")
_OVER_TIME = 37
"""Code of ``failed`` for jobs that Grid Engine ended at their limit ``h_rt``."""
_MOST = 2**31


def read_qacct(lines: Iterable[str], cluster: str, *, utc: bool = False) -> ReadJobs:
    """Return the jobs that ended, from reports of ``qacct -j``."""
    read = ReadJobs()
    for number, report in _reports(lines):
        if report.get("pe_taskid", "") in _NONE:
            read.take(number, report, lambda fields: _job(fields, cluster, utc=utc))
    return read


def _reports(lines: Iterable[str]) -> Iterator[tuple[int, Report]]:
    begun, report = 1, dict[str, str]()
    for number, line in enumerate(lines, 1):
        if re.fullmatch(r"={10,}\s*", line):
            if report:
                yield begun, report
            begun, report = number, {}
        elif line.strip():
            key, _, value = line.strip().partition(" ")
            report[key] = value.strip()
    if report:
        yield begun, report


def _job(report: Report, cluster: str, *, utc: bool) -> Run | None:
    number, task = report.get("jobnumber", ""), report.get("taskid", "")
    if not re.fullmatch(r"\d{1,18}", number) or not re.fullmatch(r"\d{0,18}|undefined", task):
        raise Unreadable("it has no jobnumber of Grid Engine")
    start_s, end_s = (_moment(report, key, utc=utc) for key in ("start_time", "end_time"))
    if start_s is None or end_s is None:
        return None
    submit_s = _moment(report, "qsub_time", utc=utc)
    slots = report.get("slots", "1")
    if not re.fullmatch(r"\d{1,9}", slots) or not 1 <= int(slots) < _MOST:
        raise Unreadable("no number of slots that can be")
    parallel = report.get("granted_pe", "") not in _NONE
    limit = _LIMIT.search(report.get("category", "")) or _LIMIT.search(
        report.get("hard_resources", "")
    )
    peak_bytes = None if parallel else _bytes(report.get("maxrss", ""))
    return Run(
        cluster=cluster,
        job_id=number if task in _NONE else f"{number}_{task}",
        user=name_of(report.get("owner", "")),
        account=name_of(_known(report, "project")),
        name=name_of(report.get("jobname", "")),
        partition=name_of(report.get("qname", "")),
        state=_state(report),
        submit_s=start_s if submit_s is None else min(submit_s, start_s),
        start_s=start_s,
        end_s=end_s,
        elapsed_s=checked_times(submit_s, start_s, end_s, _seconds(report, "ru_wallclock")),
        cores=int(slots),
        nodes=None if parallel else 1,
        node_list="" if parallel else name_of(_known(report, "hostname")),
        cpu_time_s=_seconds(report, "cpu"),
        time_limit_s=None
        if limit is None
        else 3600.0 * int(limit[1] or 0) + 60.0 * int(limit[2] or 0) + float(limit[3]) or None,
        peak_bytes=peak_bytes,
        peak_source="" if peak_bytes is None else "polled",
    )


def _known(report: Report, key: str) -> str:
    value = report.get(key, "")
    return "" if value in _NONE else value


def _moment(report: Report, key: str, *, utc: bool) -> float | None:
    """Return a time as Unix time; None: the job has none. Raises Unreadable."""
    text = " ".join(_known(report, key).split()).partition(".")[0]
    if not text:
        return None
    for form in _TIMES:
        try:
            parsed = time.strptime(text, form)
            return float(calendar.timegm(parsed)) if utc else time.mktime(parsed)
        except (ValueError, OverflowError):
            continue
    raise Unreadable(f"{key} is no time: it needs the C locale (LC_ALL=C qacct -j)")


def _seconds(report: Report, key: str) -> float | None:
    match = _SECONDS.fullmatch(report.get(key, ""))
    return None if match is None else float(match[1])


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size = int(float(match[1]) * 2.0 ** _UNITS[match[2]])
    return size if 0 < size < 2**60 else None


def _state(report: Report) -> str:
    code = report.get("failed", "0").partition(":")[0].strip()
    if code == str(_OVER_TIME):
        return "timeout"
    return "completed" if (code, report.get("exit_status")) == ("0", "0") else "failed"


READERS = (
    FileReader("grid-engine", Purpose.PAST_JOBS, (
        FileKind("qacct's report (Grid Engine)", "qacct",
                 has=(r"(?m)^={10,}\s*$", r"(?m)^qname\s")),
    ), lambda lines, cluster, *, utc, **_: read_qacct(lines, cluster, utc=utc)),
)  # fmt: skip
