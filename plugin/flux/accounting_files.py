"""Files of Flux's past jobs, and how they are recognised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.plugin.flux.accounting import SQLITE, read_archive, read_flux
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs


def read(lines: Sequence[str], cluster: str, *, source: str, **_: object) -> ReadJobs:
    """Return past jobs from JSON of ``flux jobs``, or from a job archive (SQLite).

    Flux's times are Unix times, whatever the user says of UTC.
    """
    if lines and lines[0].startswith(SQLITE):
        return read_archive(Path(source), cluster)
    return read_flux("\n".join(lines), cluster, source=source)


READERS = (
    FileReader("flux", Purpose.PAST_JOBS, (
        FileKind("flux jobs --json", "flux", json=(r'"t_submit"\s*:',)),
        FileKind("flux jobs --json, without jobs", "flux",
                 json=(r'^\{\s*"jobs"\s*:\s*\[\s*\]\s*\}\s*$',)),
        FileKind("an archive of Flux's jobs", "flux-archive", starts=(SQLITE,),
                 has=(r'(?i)CREATE TABLE (IF NOT EXISTS )?"?jobs"?',)),
    ), read),
)  # fmt: skip
