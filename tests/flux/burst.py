"""Many submissions at once, and what became of them: run by `flux python`, prints JSON.

    flux python burst.py submit '{"uris": [...], "first": 0, "count": 1000, "window": 64,
                                  "workloads": ["stream", null], "queue": "auto"}'
    flux python burst.py fetch        (a list of ids on stdin)

Job number n runs ``true job-n`` and has the attribute ``user.test.n``: any job can be told from
any other. The brokers take turns, each with up to ``window`` submissions on the way.
"""

import json
import sys
import time

import flux
from flux.job import JobspecV1, submit_async, submit_get_id


def spec_of(number, order):
    """The jobspec of job ``number``, as JSON."""
    spec = JobspecV1.from_command(["true", f"job-{number}"], num_tasks=1, cores_per_task=1)
    spec.cwd = "/tmp"
    spec.environment = {"NUMBER": str(number)}
    spec.duration = 600 + number % 1000
    if order.get("queue"):
        spec.queue = order["queue"]
    workloads = order.get("workloads") or [None]
    workload = workloads[number % len(workloads)]
    if workload:
        spec.setattr("user.berth.workload", workload)
    spec.setattr("user.test.n", number)
    return spec.dumps()


def submit(order):
    """Submit everything; ids by number, errors by number, and the seconds it took."""
    handles = [flux.Flux(uri) for uri in order["uris"]]
    numbers = range(order["first"], order["first"] + order["count"])
    specs = [(number, spec_of(number, order)) for number in numbers]
    waiting = [[] for _ in handles]
    ids, errors, slowest = {}, {}, 0.0
    started = time.monotonic()

    def collect(lane):
        nonlocal slowest
        number, future, begun = waiting[lane].pop(0)
        try:
            ids[number] = submit_get_id(future)
        except OSError as error:
            errors[number] = str(error)
        slowest = max(slowest, time.monotonic() - begun)

    for turn, (number, spec) in enumerate(specs):
        lane = turn % len(handles)
        if len(waiting[lane]) >= order.get("window", 64):
            collect(lane)
        future = submit_async(handles[lane], spec, urgency=0)  # held: none of them runs
        waiting[lane].append((number, future, time.monotonic()))
    for lane in range(len(handles)):
        while waiting[lane]:
            collect(lane)
    seconds = time.monotonic() - started
    return {"ids": ids, "errors": errors, "seconds": seconds, "slowest_s": slowest}


def fetch(ids):
    """Each job's jobspec as it was accepted, with the one submitted, by id."""
    handle = flux.Flux()
    found = {}
    for begin in range(0, len(ids), 500):
        futures = [
            (job, handle.rpc("job-info.lookup", {"id": job, "keys": ["jobspec"], "flags": 0}))
            for job in ids[begin : begin + 500]
        ]
        for job, future in futures:
            found[job] = json.loads(future.get()["jobspec"])
    return found


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        json.dump(submit(json.loads(sys.argv[2])), sys.stdout)
    else:
        json.dump(fetch(json.load(sys.stdin)), sys.stdout)
