"""Reads the job archive of ClusterCockpit: a ``meta.json`` for each job, in folders by cluster.

Its ``statistics`` hold, for each metric, ``avg``, ``min`` and ``max`` with a unit, over all nodes
(or GPUs) of the job. Read are ``mem_used`` (memory of nodes), ``acc_mem_used`` (memory of GPUs),
``acc_utilization`` and ``acc_mem_util`` (or ``nv_mem_util``), and ``cpu_user`` where it is a per
cent. ``resources`` name the nodes and GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.usage.record import Usage
from berth.plugin.history.usage_files.reading import ReadUsages, number
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import Unreadable

SOURCE = "cluster-cockpit"
FILE = "meta.json"
LACKS = (
    "peaks between two samples, and memory of a job that shares its node (mem_used is the node's)"
)
MOST_BYTES = 2**20
"""Maximum size of a job's ``meta.json``."""
MOST_FILES = 1_000_000
_GPU_MEMORY = ("acc_mem_used", "nv_fb_mem_used")
_GPU_USE = ("acc_utilization", "acc_used", "nv_util")
_GPU_MEMORY_USE = ("acc_mem_util", "nv_mem_util")
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
             "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every ``meta.json`` below a folder, in order of their paths. Links are not followed."""
    for count, path in enumerate(sorted(folder.rglob(FILE)), 1):
        if count > MOST_FILES:
            raise DocumentError(folder, f"holds more than {MOST_FILES} jobs", hint="name a part")
        if path.is_file() and not path.is_symlink():
            yield path


def read_archive(path: Path, cluster: str, *, received_s: float) -> ReadUsages:
    """Return the jobs of an archive's folder, or of one ``meta.json``. Raises DocumentError where
    there is none."""
    read = ReadUsages()
    files = [path] if path.is_file() else list(files_in(path))
    if not files:
        raise DocumentError(path, f"holds no {FILE} of ClusterCockpit")
    for file in files:
        try:
            read.add(usage_in(_object(file), cluster, received_s))
        except Unreadable as error:
            read.refuse(file, "", error)
    return read


def usage_in(meta: Mapping[str, Any], cluster: str, received_s: float) -> Usage:
    """Return what a job's ``meta.json`` says. Raises Unreadable."""
    job, statistics = meta.get("jobId"), meta.get("statistics")
    if isinstance(job, bool) or not isinstance(job, int | str) or not str(job).isdigit():
        raise Unreadable("no jobId")
    if not isinstance(statistics, dict):
        raise Unreadable("no statistics")
    return Usage(
        cluster=cluster,
        job_id=str(job)[:64],
        source=SOURCE,
        received_s=received_s,
        cpu_time_s=_cpu_time_s(meta, statistics),
        peak_bytes=_bytes(statistics, ("mem_used",)),
        gpus=_gpus(meta.get("resources")),
        gpu_peak_bytes=_bytes(statistics, _GPU_MEMORY),
        gpu_utilisation=_share(statistics, _GPU_USE),
        gpu_memory_utilisation=_share(statistics, _GPU_MEMORY_USE),
        lacks=LACKS,
    )


def _object(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        read = None if len(data) > MOST_BYTES else json.loads(data)
    except (OSError, ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Unreadable("no JSON object of at most 1 MiB")
    return read


def _statistic(
    statistics: Mapping[str, Any], names: tuple[str, ...], key: str
) -> tuple[float, str, str] | None:
    """Return a metric's value with its unit and the unit's prefix; None: not recorded."""
    for name in names:
        metric = statistics.get(name)
        if isinstance(metric, dict) and (value := number(metric.get(key))) is not None:
            unit = metric.get("unit")
            unit = unit if isinstance(unit, dict) else {}
            return value, str(unit.get("base") or ""), str(unit.get("prefix") or "")
    return None


def _bytes(statistics: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    found = _statistic(statistics, names, "max")
    if found is None or found[1] not in ("B", "byte", "bytes") or found[2] not in _PREFIXES:
        return None
    size = found[0] * _PREFIXES[found[2]]
    return int(size) if abs(size) < 2**62 else -1


def _share(statistics: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Return a metric that is in per cent as a share."""
    found = _statistic(statistics, names, "avg")
    return None if found is None else found[0] / 100.0


def _gpus(resources: object) -> int | None:
    if not isinstance(resources, list):
        return None
    lists = [node.get("accelerators") for node in resources if isinstance(node, dict)]
    return sum(len(gpus) for gpus in lists if isinstance(gpus, list)) or None


def _cpu_time_s(meta: Mapping[str, Any], statistics: Mapping[str, Any]) -> float | None:
    """Return the mean processor use of a hardware thread (per cent) for all of them and all the
    time."""
    found = _statistic(statistics, ("cpu_user",), "avg")
    threads, seconds = number(meta.get("numHwthreads")), number(meta.get("duration"))
    if found is None or found[1] not in ("%", "") or not threads or not seconds:
        return None
    return found[0] / 100.0 * threads * seconds


READERS = (
    FileReader("cluster-cockpit", Purpose.USAGE, (
        FileKind("a job of ClusterCockpit's archive (meta.json)", "cluster-cockpit",
                 ends=(FILE,), json=(r'"jobId"\s*:', r'"(statistics|cluster)"\s*:')),
    ), lambda file, _lines, cluster, *, received_s, **_: read_archive(
        file, cluster, received_s=received_s)),
)  # fmt: skip
