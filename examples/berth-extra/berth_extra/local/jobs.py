"""The jobs' folders: made, read."""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from berth.pilot.errors import SchedulerError
from berth.pilot.run import Run

UNREADABLE = (OSError, ValueError, TypeError, LookupError)


@dataclass(frozen=True)
class End:
    """What became of a job."""

    status: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class LocalJob:
    """One job as its folder has it."""

    id: str
    words: tuple[str, ...]
    queue: str
    cores: int
    user: str
    submit_s: float
    ended: End | None = None

    def outcome(self) -> Run:
        """In Berth's terms."""
        end = self.ended
        state = "running" if end is None else "completed" if end.status == 0 else "failed"
        start_s = self.submit_s if end is None else end.start_s
        return Run(
            cluster="",
            job_id=self.id,
            state=state,
            partition=self.queue,
            elapsed_s=(time.time() if end is None else end.end_s) - start_s,
            user=self.user,
            exit_status=None if end is None else end.status,
            submit_s=self.submit_s,
            start_s=start_s,
            end_s=None if end is None else end.end_s,
            nodes=1,
            cores=self.cores,
        )


def root() -> Path:
    """Where the folders are."""
    named = os.environ.get("BERTH_LOCAL_JOBS")
    return Path(named) if named else Path.home() / ".local" / "state" / "berth-local"


def create(words: Sequence[str], queue: str, cores: int) -> Path:
    """The folder of a new job. Raises SchedulerError."""
    try:
        root().mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(path.name[6:]) for path in root().glob("local-*")), default=0)
        while True:
            folder = root() / f"local-{number}"
            try:
                folder.mkdir()
                break
            except FileExistsError:  # another submission was faster
                number += 1
        job = LocalJob(folder.name, tuple(words), queue, cores, getpass.getuser(), time.time())
        write(folder / "job.json", {k: v for k, v in asdict(job).items() if k != "ended"})
    except OSError as error:
        raise SchedulerError(f"{root()} cannot be written: {error.strerror}") from None
    return folder


def write(path: Path, data: object) -> None:
    """A reader sees the whole file or none."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(data))
    new.replace(path)


def every() -> Iterator[LocalJob]:
    """All jobs whose folders can be read."""
    for folder in sorted(root().glob("local-*")):
        try:
            job = json.loads((folder / "job.json").read_text())
            end = folder / "end.json"
            ended = End(**json.loads(end.read_text())) if end.exists() else None
            yield LocalJob(**{**job, "words": tuple(job["words"]), "ended": ended})
        except UNREADABLE:
            continue
