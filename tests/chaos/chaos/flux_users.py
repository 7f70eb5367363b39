"""Users of a Flux: run by ``flux python``, with Flux's and the standard library's modules alone.

    flux python flux_users.py submit '{"uris": [...], "out": FILE, "seed": 1, "rate": 20}'
    flux python flux_users.py jobs

``submit`` goes on until its standard input ends and writes a line for each submission, as the
history has them; what is held or waits it cancels now and then, so that the queue does not grow
with the run. ``jobs`` prints every job with its jobspec as it was accepted.
"""

import errno
import json
import select
import sys
import time
from pathlib import Path

import flux
from flux.job import JobspecV1, submit_async, submit_get_id

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chaos.asked import asked

PATIENCE_S = 90.0
CANCEL_EVERY_S = 20.0
_DEPEND_TO_SCHED = 2 + 4 + 8
"""States of jobs that do not run yet, as bits: DEPEND, PRIORITY, SCHED."""


def spec_of(job):
    """The jobspec of an asked job."""
    spec = JobspecV1.from_command(["true"], num_tasks=job.tasks, cores_per_task=1)
    spec.cwd = "/tmp"
    spec.environment = {}
    spec.duration = 60 * (job.time_limit_min or 5)
    spec.setattr("system.job.name", job.name)
    if job.queue:
        spec.queue = job.queue
    if job.workload:
        spec.setattr("user.berth.workload", job.workload)
    if job.opted_out:
        spec.setattr("user.berth.mode", "off")
    return spec.dumps()


def submit(order):
    """At a steady rate, the brokers in turns."""
    handles = [flux.Flux(uri) for uri in order["uris"]]
    waiting = [[] for _ in handles]
    began, number = time.monotonic(), 0
    cancelled_s = began
    with open(order["out"], "w") as out:  # noqa: PTH123
        while True:
            pause_s = max(0.0, began + number / order["rate"] - time.monotonic())
            if select.select([sys.stdin], [], [], min(pause_s, 0.01))[0]:
                break
            for lane in waiting:
                while lane and (ready(lane[0][1]) or overdue(lane[0])):
                    told(out, *lane.pop(0))
            if pause_s > 0.01:
                continue
            if time.monotonic() - cancelled_s > CANCEL_EVERY_S:
                cancelled_s = time.monotonic()
                cancel_waiting(handles[0])
            number += 1
            job = asked(order["seed"], number)
            lane = number % len(handles)
            begun_s = time.time()
            future = submit_async(handles[lane], spec_of(job), urgency=0 if job.held else 16)
            waiting[lane].append((job, future, begun_s))
        for one in (one for lane in waiting for one in lane):
            told(out, *one)


def cancel_waiting(handle):
    """Every job that does not run yet; nobody waits for the answer."""
    order = {
        "dry_run": False, "userid": flux.constants.FLUX_USERID_UNKNOWN, "states": _DEPEND_TO_SCHED,
        "severity": 0, "type": "cancel", "note": "",
    }  # fmt: skip
    handle.rpc("job-manager.raiseall", order)


def ready(future):
    """Whether it has come out, well or not; looks for messages meanwhile."""
    try:
        future.wait_for(0.001)
    except OSError as error:
        return error.errno != errno.ETIMEDOUT
    return True


def overdue(one):
    """Whether a submission is given up."""
    return time.time() - one[2] > PATIENCE_S


def told(out, job, future, begun_s):
    status, said, found = 0, "", None
    try:
        future.wait_for(PATIENCE_S)
        found = str(int(submit_get_id(future)))
    except OSError as error:
        status, said = 1, str(error)
    line = {
        "name": job.name, "user": "", "queue": job.queue, "opted_out": job.opted_out,
        "held": job.held, "begun_s": begun_s, "ended_s": time.time(), "status": status,
        "said": said, "job": found,
    }  # fmt: skip
    out.write(json.dumps(line) + "\n")
    out.flush()


def jobs():
    """All that the instance has, with their jobspecs."""
    handle = flux.Flux()
    rows = flux.job.job_list(handle, max_entries=0, attrs=["name", "state", "urgency"]).get_jobs()
    found = []
    for begin in range(0, len(rows), 500):
        part = rows[begin : begin + 500]
        futures = [
            handle.rpc("job-info.lookup", {"id": row["id"], "keys": ["jobspec"], "flags": 0})
            for row in part
        ]
        for row, future in zip(part, futures, strict=True):
            attributes = json.loads(future.get()["jobspec"])["attributes"]
            notes = (attributes.get("user") or {}).get("berth") or {}
            found.append({
                "id": str(row["id"]), "name": row["name"], "user": "",
                "queue": attributes["system"].get("queue") or "", "stamp": notes.get("decision"),
                "state": str(row["state"]), "reason": "held" if row["urgency"] == 0 else "",
            })  # fmt: skip
    return found


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        submit(json.loads(sys.argv[2]))
    else:
        json.dump(jobs(), sys.stdout)
