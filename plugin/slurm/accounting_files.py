"""Files of Slurm's accounting, as sacct writes them, and how they are recognised."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs
from berth.plugin.slurm.sacct import read_sacct
from berth.plugin.slurm.sacct_json import read_sacct_json


def read(lines: Sequence[str], cluster: str, *, source: str, utc: bool) -> ReadJobs:
    """Return past jobs from lines of sacct's parsable output, or of ``sacct --json``."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        return read_sacct_json("\n".join(lines), cluster, source=source)
    return read_sacct(lines, cluster, source=source, utc=utc)


READERS = (
    FileReader("slurm", Purpose.PAST_JOBS, (
        FileKind("sacct's parsable table", "sacct", line=r"JobID(Raw)?\|"),
        FileKind("sacct's parsable table", "sacct", separator="|", columns=("JobID",)),
        FileKind("sacct --json", "sacct-json",
                 json=(r'"jobs"\s*:', r'"(association|allocation_nodes)"\s*:')),
        FileKind("sacct --json, without jobs", "sacct-json",
                 json=(r'"jobs"\s*:\s*\[\s*\]', r'"[Ss]lurm"\s*:')),
    ), read),
)  # fmt: skip
