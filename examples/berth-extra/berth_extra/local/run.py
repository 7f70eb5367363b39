"""Starts a job: ``python -m berth_extra.local.run --queue=local --cores=4 -- ./app args``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from berth.pilot.errors import BerthError
from berth_extra.local import check_queue, jobs


def main() -> None:
    """Print the job's id and return at once; a process of its own waits for the job's end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue", required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("words", nargs="+")
    asked = parser.parse_args()
    try:
        check_queue(asked.queue)
        folder = jobs.create(asked.words, asked.queue, asked.cores)
    except BerthError as error:
        sys.exit(error.message)
    print(folder.name, flush=True)
    if os.fork() == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        _wait_for(folder, asked.words)


def _wait_for(folder: Path, words: list[str]) -> None:
    start_s = time.time()
    try:
        with (folder / "output").open("wb") as output:
            status = subprocess.run(words, stdout=output, stderr=output, check=False).returncode
    except OSError as error:
        (folder / "output").write_text(f"{error}\n")
        status = 127
    jobs.write(folder / "end.json", {"status": status, "start_s": start_s, "end_s": time.time()})


if __name__ == "__main__":
    main()
