"""Reads jobstats' summaries of jobs: ``JS1:`` and base64 of gzipped JSON.

jobstats writes one to each job's AdminComment when it ends, or to a database of its own, whose
table ``job_statistics`` has the columns ``cluster``, ``jobid`` and ``admin_comment``. ``JS1:Short``
and ``JS1:None`` say that nothing was recorded. The JSON holds, for each node, ``total_time``
(processor seconds), ``used_memory`` (largest, bytes) and by GPU ``gpu_utilization`` (mean, per
cent) and ``gpu_used_memory`` (largest, bytes).
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.usage.record import Usage
from berth.plugin.history.usage_files.reading import ReadUsages, number
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import Unreadable, cells_of

SOURCE = "jobstats"
MARK = "JS1:"
_NOTHING = frozenset(("JS1:Short", "JS1:None", "JS1:"))
LACKS = "utilisation of GPU memory, and peaks between two samples (jobstats polls)"
MOST_BYTES = 2**20
"""Maximum size of a summary's JSON: about 2,000 nodes with 8 GPUs each."""
LONGEST = 2**20
"""Maximum number of characters of a summary."""
_GZIP = 31
_COLUMNS = ("jobid", "admin_comment")


def usage_in(
    comment: str, cluster: str, job_id: str, received_s: float, *, job_nodes: int = 1
) -> Usage | None:
    """Return what a summary says of a job; None: it says that nothing was recorded, or tells of
    some of the job's nodes only.

    Raises Unreadable.
    """
    if comment in _NOTHING:
        return None
    nodes = _json(comment).get("nodes")
    if not isinstance(nodes, dict) or not all(isinstance(node, dict) for node in nodes.values()):
        raise Unreadable("a jobstats summary without nodes")
    if len(nodes) < job_nodes:
        return None
    cpu_times = _numbers(node.get("total_time") for node in nodes.values())
    peaks = _numbers(node.get("used_memory") for node in nodes.values())
    shares = _of_gpus(nodes, "gpu_utilization")
    gpu_peaks = _of_gpus(nodes, "gpu_used_memory")
    return Usage(
        cluster=cluster,
        job_id=job_id,
        source=SOURCE,
        received_s=received_s,
        cpu_time_s=sum(cpu_times) if cpu_times else None,
        peak_bytes=_whole(max(peaks, default=None)),
        gpus=max(len(shares), len(gpu_peaks)) or None,
        gpu_peak_bytes=_whole(max(gpu_peaks, default=None)),
        # One GPU that cannot be right makes the mean wrong.
        gpu_utilisation=_mean_share(shares),
        lacks=LACKS,
    )


def read_export(
    lines: Sequence[str], cluster: str, *, source: str, received_s: float, only: str | None = None
) -> ReadUsages:
    """Return the summaries of an export of jobstats' database: CSV, or ``mysql --batch`` output.

    ``only``: the cluster, by jobstats' name, whose jobs are read; needed where the file has
    several. Raises DocumentError.
    """
    rows = [(at, _cells(line)) for at, line in enumerate(lines, 1) if line.strip()]
    header = rows[0][1] if rows else []
    if not set(_COLUMNS) <= set(header):
        raise DocumentError(
            source, f"is no export of job_statistics: it needs {' and '.join(_COLUMNS)}"
        )
    whole = [(at, dict(zip(header, row, strict=False))) for at, row in rows[1:]]
    clusters = {row.get("cluster", "") for _, row in whole}
    if only is None and len(clusters) > 1:
        names = ", ".join(sorted(clusters))
        raise DocumentError(
            source, f"has jobs of several clusters: {names}", hint="give one: --of-cluster NAME"
        )
    read = ReadUsages()
    for at, row in whole:
        if only is None or row.get("cluster") == only:
            _take(read, at, row, cluster, received_s)
    return read


def _take(
    read: ReadUsages, at: int, row: Mapping[str, str], cluster: str, received_s: float
) -> None:
    job_id, comment = row.get("jobid", ""), row.get("admin_comment", "")
    try:
        if not job_id.replace("_", "").isdigit() or not comment.startswith(MARK):
            raise Unreadable("no job id and summary")
        usage = usage_in(comment, cluster, job_id[:64], received_s)
    except Unreadable as error:
        read.refuse(f"line {at}", row, error)
        return
    if usage is None:
        read.nothing_recorded += 1
    else:
        read.add(usage)


def _cells(line: str) -> list[str]:
    return cells_of(line, "\t" if "\t" in line else ",")


def _json(comment: str) -> Mapping[str, object]:
    """Return the JSON object of a summary; at most ``MOST_BYTES`` are unpacked."""
    if len(comment) > LONGEST:
        raise Unreadable("a jobstats summary that is too long")
    try:
        packed = base64.b64decode(comment.removeprefix(MARK), validate=True)
        unpacking = zlib.decompressobj(_GZIP)
        text = unpacking.decompress(packed, MOST_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        raise Unreadable("a broken jobstats summary") from None
    if not unpacking.eof:
        raise Unreadable("a jobstats summary that is cut off, or larger than can be")
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Unreadable("a jobstats summary that is no JSON object")
    return read


def _of_gpus(nodes: Mapping[str, Mapping[str, object]], key: str) -> list[float]:
    by_node = [gpus for node in nodes.values() if isinstance(gpus := node.get(key), dict)]
    return _numbers(value for gpus in by_node for value in gpus.values())


def _numbers(values: Iterable[object]) -> list[float]:
    return [known for value in values if (known := number(value)) is not None]


def _mean_share(percents: Sequence[float]) -> float | None:
    """Return the mean share; a share that cannot be where one of the GPUs has such a value."""
    if not percents:
        return None
    wrong = next((share for share in percents if not 0 <= share <= 100.5), None)
    return (sum(percents) / len(percents) if wrong is None else wrong) / 100.0


def _whole(value: float | None) -> int | None:
    """Return the number without its fraction; infinity and NaN become -1, which cannot be."""
    if value is None:
        return None
    return int(value) if abs(value) < 2**62 else -1


READERS = (
    FileReader("jobstats", Purpose.USAGE, (
        FileKind("an export of jobstats' summaries (jobid,admin_comment)", "jobstats",
                 first=r'"?[\w"]+"?[,\t].*admin_comment'),
    ), lambda file, lines, cluster, *, received_s, of_cluster: read_export(
        lines, cluster, source=str(file), received_s=received_s, only=of_cluster)),
)  # fmt: skip
