"""AccaSim on a trace in the Standard Workload Format: when each job starts, by its number.

Run by ``replay_peer.py`` with the Python of an environment that has ``accasim==1.1.3`` from PyPI:
``accasim_worker.py TRACE.swf CORES fifo|easy OUTPUT.json``. Writes the starts, and the processor
time of its simulation.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import tempfile
import time
from pathlib import Path

# Gone from collections since Python 3.10, and from time since 3.8.
for _name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
    if not hasattr(collections, _name):
        setattr(collections, _name, getattr(collections.abc, _name))
if not hasattr(time, "clock"):
    time.clock = time.perf_counter


def main(trace: str, cores: str, scheduler: str, output: str) -> None:
    """See above."""
    from accasim.base import event_class
    from accasim.base.allocator_class import FirstFit
    from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
    from accasim.base.simulator_class import Simulator

    starts: dict[str, float] = {}
    dispatch = event_class.EventManager.dispatch_events

    def recorded(self: object, events: dict, planned: list, took: int) -> object:
        jobs = {one[1]: events[one[1]] for one in planned if one[2]}
        done = dispatch(self, events, planned, took)
        starts.update({str(name): float(job.start_time) for name, job in jobs.items()})
        return done

    event_class.EventManager.dispatch_events = recorded
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder, "machine.json")
        machine.write_text(json.dumps({
            "groups": {"all": {"core": int(cores)}}, "resources": {"all": 1},
            "equivalence": {"processor": {"core": 1}}, "start_time": 0,
        }))  # fmt: skip
        kind = {"fifo": FirstInFirstOut, "easy": EASYBackfilling}[scheduler]
        simulator = Simulator(
            trace, str(machine), kind(FirstFit()), scheduling_output=False,
            statistics_output=False, show_statistics=False, RESULTS_FOLDER_PATH=folder,
        )  # fmt: skip
        began = time.process_time()
        simulator.start_simulation()
        seconds = time.process_time() - began
    Path(output).write_text(json.dumps({"starts": starts, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
