"""How many files and functions a reader walks through: from a submission to its answer, and from a
decision's record to the text that a person reads.

Traced as it runs (``sys.setprofile``), each function and file of Berth counted once. A submission's
shape is traced when it is new and when it was seen before.

    python benchmarks/walk.py [--names]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, MappingProxyType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]

from daemon_bench.site import forecasts, request_line, site_text  # noqa: E402

from berth.plugin.daemon.app import view  # noqa: E402
from berth.plugin.daemon.journal import Journal  # noqa: E402
from berth.plugin.daemon.record import Answered, record_of  # noqa: E402
from berth.plugin.daemon.service import Service  # noqa: E402
from berth.plugin.daemon.shelf import Shelf  # noqa: E402
from berth.plugin.daemon.view import Snapshot  # noqa: E402
from berth.plugin.report.html import html  # noqa: E402
from berth.plugin.report.of_decision import Decided, decision_part  # noqa: E402
from berth.plugin.report.of_job import job_report  # noqa: E402
from berth.plugin.report.terminal import part_text  # noqa: E402
from berth.plugin.site.load import load_site  # noqa: E402
from berth.policies.values import CandidateState, QueueBounds  # noqa: E402

ROOMS = tuple(str(ROOT / room) + "/" for room in ("pilot", "predictor", "policies", "plugin"))
BARS = {"submission": (14, 60), "decision": (8, None)}
"""Files and functions, at most."""


def walked(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the files and functions of Berth that a call goes through."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS):
            seen.add((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def service_of(folder: Path, record: Callable[[Answered], None]) -> Service:
    """Return a service over the benchmarks' candidates, which knows their programs."""
    (folder / "berth.toml").write_text(site_text(folder))
    service = Service(
        view(load_site(folder / "berth.toml")), record, keep=Journal(folder / "journal").write
    )
    service.shelf = Shelf.of(forecasts())
    states = {
        candidate.name: CandidateState(True, 64, 4, 0, time.time(), 8, bounds=QueueBounds())
        for candidate in service.site.decider.candidates
    }
    service.snapshot = Snapshot(MappingProxyType(states), time.time(), time.monotonic())
    return service


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="Name the functions, too.")
    options = parser.parse_args()
    answered: list[Answered] = []
    with tempfile.TemporaryDirectory() as folder:
        service = service_of(Path(folder), answered.append)
        line = request_line(0, "burst")[:-1]
        walks = {
            "submission, its shape never seen": walked(lambda: service.handle(line)),
            "submission, its shape seen before": walked(lambda: service.handle(line)),
        }
    decided = Decided(record_of(answered[0], "host"))
    walks["decision to the screen"] = walked(lambda: part_text(decision_part(decided)))
    walks["decision to the page"] = walked(
        lambda: html(job_report(decided, None, pictures=False), made_by="benchmark")
    )
    print("| from | files | functions | bar |")
    print("|---|---|---|---|")
    for name, walk in walks.items():
        most_files, most_functions = BARS[name.replace(",", "").split()[0]]
        files = len({file for file, _ in walk})
        met = files <= most_files and len(walk) <= (most_functions or len(walk))
        bar = f"{most_files} files" + (f", {most_functions} functions" if most_functions else "")
        print(f"| {name} | {files} | {len(walk)} | {bar}: {'met' if met else 'missed'} |")
        if options.names:
            for file, function in sorted(walk):
                print(f"    {file} {function}")


if __name__ == "__main__":
    main()
