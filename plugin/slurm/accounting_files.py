"""Files of Slurm's accounting, as sacct writes them, and how they are recognised."""

from __future__ import annotations

from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.plugin.readers import Purpose
from berth.plugin.slurm.sacct import read_sacct

READERS = (
    FileReader("slurm", Purpose.PAST_JOBS, (
        FileKind("sacct's parsable table", "sacct", line=r"JobID(Raw)?\|"),
        FileKind("sacct's parsable table", "sacct", separator="|", columns=("JobID",)),
    ), read_sacct),
)  # fmt: skip
