"""Reads what monitoring recorded of jobs from a file or folder, by its content."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.plugin.history.files import lines_of
from berth.plugin.history.usage_files import cluster_cockpit, jobstats, metrics_csv
from berth.plugin.history.usage_files.reading import ReadUsages


def read_usages(
    path: Path, cluster: str, *, received_s: float, of_cluster: str | None = None
) -> ReadUsages:
    """Return the usages of an export of jobstats' database, a CSV of metrics, a ``meta.json`` of
    ClusterCockpit or a folder of these.

    ``of_cluster``: the cluster, by jobstats' name, whose jobs are read. Raises DocumentError.
    """
    if path.is_dir() or path.name == cluster_cockpit.FILE:
        return cluster_cockpit.read_archive(path, cluster, received_s=received_s)
    lines = lines_of(path)
    first = next((line for line in lines if line.strip()), "")
    if jobstats.begins_export(first):
        return jobstats.read_export(
            lines, cluster, source=str(path), received_s=received_s, only=of_cluster
        )
    if metrics_csv.begins_metrics(first):
        return metrics_csv.read_metrics(lines, cluster, source=str(path), received_s=received_s)
    raise DocumentError(
        path,
        "is none of the files that Berth reads the use of jobs from",
        hint="a CSV with the columns job,metric,value; an export of jobstats' job_statistics "
        "(jobid,admin_comment); or ClusterCockpit's meta.json",
    )
