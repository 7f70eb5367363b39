"""How many files and functions a reader walks through: from a submission to its answer, and from a
decision's record to the text that a person reads.

Traced as it runs (``sys.setprofile``), each function and file of Berth counted once; comprehensions
and lambdas belong to the function that holds them. A submission's shape is traced when it is new
and when it was seen before, each of a program whose forecast is in use, and once more with all that
is known of the partition where the job would stay. Ends with 1 where nothing was traced.

    python benchmarks/walk.py [--names]
"""

from __future__ import annotations

import argparse
import re
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
from berth.plugin.daemon.journal import AnswerJournal  # noqa: E402
from berth.plugin.daemon.record import Answered, record_of  # noqa: E402
from berth.plugin.daemon.service import Service  # noqa: E402
from berth.plugin.daemon.shelf import Shelf  # noqa: E402
from berth.plugin.daemon.view import Snapshot  # noqa: E402
from berth.plugin.report.html import html  # noqa: E402
from berth.plugin.report.of_decision import DecidedJob, decision_part  # noqa: E402
from berth.plugin.report.of_job import job_report  # noqa: E402
from berth.plugin.report.terminal import part_text  # noqa: E402
from berth.plugin.site.load import load_site  # noqa: E402
from berth.policies.values import (  # noqa: E402
    CandidateState,
    DefaultMemory,
    OwnQueue,
    QueueBounds,
)

ROOMS = tuple(str(ROOT / room) + "/" for room in ("pilot", "predictor", "policies", "plugin"))
BARS = {"submission": (14, 60), "decision": (8, None)}
"""Files and functions, at most."""
_PART_OF_A_FUNCTION = re.compile(r"(\.<locals>)?\.<(genexpr|listcomp|setcomp|dictcomp|lambda)>")


def walked(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the files and functions of Berth that a call goes through."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS):
            name = _PART_OF_A_FUNCTION.sub("", code.co_qualname)
            seen.add((str(Path(code.co_filename).relative_to(ROOT)), name))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    if not seen:
        sys.exit(f"nothing was traced: berth is not imported from {ROOT}, but as {view.__code__}")
    return seen


def service_of(folder: Path, record: Callable[[Answered], None], *, knows_auto: bool) -> Service:
    """Return a service over the benchmarks' candidates, which knows their programs.

    ``knows_auto``: it also knows what a job gets that stays in the partition ``auto``.
    """
    (folder / "berth.toml").write_text(site_text(folder))
    service = Service(
        view(load_site(folder / "berth.toml")), record, keep=AnswerJournal(folder / "journal").write
    )
    service.shelf = Shelf.of(forecasts())
    states = {
        candidate.name: CandidateState(True, 64, 4, 0, time.time(), 8, bounds=QueueBounds())
        for candidate in service.site.decider.candidates
    }
    places = tuple(name for name in states if name.startswith("cpu"))
    own = OwnQueue("auto", QueueBounds(), DefaultMemory(), 86_400.0, 32, places=places)
    service.snapshot = Snapshot(
        MappingProxyType(states), time.time(), time.monotonic(),
        own_queues={"auto": own} if knows_auto else {},
    )  # fmt: skip
    service.handle(request_line(5, "new")[:-1])  # from here on the forecast is in use
    return service


def walks_of_submissions(answered: list[Answered]) -> dict[str, set[tuple[str, str]]]:
    """Return the walks of a job of each kind; ``answered``: gets the decisions."""
    line = request_line(40, "new")[:-1]
    walks = {}
    for knows_auto, where in ((False, ""), (True, ", compared with staying")):
        with tempfile.TemporaryDirectory() as folder:
            service = service_of(Path(folder), answered.append, knows_auto=knows_auto)
            for seen in ("never seen", "seen before"):
                name = f"submission, its shape {seen}{where}"
                walks[name] = walked(lambda: service.handle(line))  # noqa: B023 - called at once
    if any(each.action != "edit" for each in answered):
        sys.exit(f"a job was not placed: {[each.reason for each in answered]}")
    return walks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="Name the functions, too.")
    options = parser.parse_args()
    answered: list[Answered] = []
    walks = walks_of_submissions(answered)
    decided = DecidedJob(record_of(answered[1], "host"))
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
