"""The replay beside FCFS and EASY written from their definitions, start by start: 0 differ.

``make replay-peer``, or ``PYTHONPATH=tests/support python benchmarks/peers/by_definition.py``:
months of a busy machine in three public forms of traces, read by Berth and replayed; the other
implementation (``tests/support/queue_by_definition.py``) shares no code with the replay and reads
no file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from public_forms import FORMS, busy_months, differing

CORES = 1_024


def main() -> None:
    """Print the jobs that start at another second by form and scheduler; exit with 1 for any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=8_000, help="jobs of each trace [8000]")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    total = 0
    for form, write in FORMS.items():
        jobs = busy_months(f"{form} {asked.seed}", asked.jobs, CORES)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, form)
            file.write_text(write(jobs))
            for easy in (False, True):
                others = differing(file, jobs, CORES, easy=easy)
                total += len(others)
                name = "EASY" if easy else "FCFS"
                print(f"{form}: {name}, {len(others)} of {len(jobs):,} starts differ", flush=True)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
