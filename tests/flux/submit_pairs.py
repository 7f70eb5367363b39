"""Submits many jobs by Flux's own commands and follows them: run by ``flux python``.

On stdin ``{"jobs": [{"command": "submit", "words": [...], "env": {...}}], "settle_s": 20}``, on
stdout a list: what each command said, its jobs' jobspecs and events. Each job is a fork of this
process that runs the command's own file (``flux-submit.py``): Python starts once for all of them.
``run`` and ``alloc`` wait for their jobs: they only write the jobspec here, which is submitted.
"""

import contextlib
import json
import os
import runpy
import sys
import tempfile
import time

import flux
import flux.cli.alloc
import flux.cli.batch
import flux.cli.run
import flux.cli.submit
import flux.job

COMMANDS = os.environ["FLUX_EXEC_PATH"].partition(":")[0] + "/flux-%s.py"
STILL_S = 3.0
WAITING = ("run", "alloc")
URGENCIES = {"hold": 0, "default": 16, "expedite": 31}


def start(job, out, err):
    """Fork; the child runs the command and never returns."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.environ.update(job["env"])
        words = list(job["words"])
        if job["command"] in WAITING:
            words.insert(0, "--dry-run")
        sys.argv = ["flux-" + job["command"], *words]
        runpy.run_path(COMMANDS % job["command"], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def submitted(job, handle):
    """Run the command; what it said, and the jobs that it made."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = start(job, out, err)
        _, ended = os.waitpid(child, 0)
        status = os.waitstatus_to_exitcode(ended)
        out.seek(0)
        err.seek(0)
        said, problem = out.read(), err.read()
    if status == 0 and job["command"] in WAITING:
        try:
            said = str(flux.job.submit(handle, said, urgency=urgency_of(job["words"])))
        except (OSError, ValueError) as error:
            return {"status": 1, "message": str(error), "ids": []}
    ids = []
    for word in said.split() if status == 0 else ():
        with contextlib.suppress(ValueError):
            ids.append(int(flux.job.JobID(word)))
    return {"status": status, "message": problem, "ids": ids}


def urgency_of(words):
    """What ``--urgency`` says, as the command would read it. Raises ValueError."""
    given = [w.partition("=")[2] for w in words if w.startswith("--urgency=")]
    text = given[-1] if given else "default"
    return URGENCIES[text] if text in URGENCIES else int(text)


def events_of(handle, job):
    text = handle.rpc("job-info.lookup", {"id": job, "keys": ["eventlog"], "flags": 0}).get()
    return [json.loads(line) for line in text["eventlog"].splitlines()]


def follow(handle, ids, settle_s):
    """The events of all jobs, once each has ended or none has done anything for some seconds."""
    seen = {job: [] for job in ids}
    stop = time.monotonic() + settle_s
    still_since = time.monotonic()
    while time.monotonic() < stop:
        moving = False
        for job, before in seen.items():
            if before and before[-1]["name"] == "clean":
                continue
            now = events_of(handle, job)
            names = {event["name"] for event in now}
            if len(now) != len(before):
                still_since = time.monotonic()
            moving = moving or ("alloc" in names and "clean" not in names)
            seen[job] = now
        if all(events and events[-1]["name"] == "clean" for events in seen.values()):
            break
        if not moving and time.monotonic() - still_since > STILL_S:
            break
        time.sleep(0.2)
    return seen


def main():
    order = json.load(sys.stdin)
    handle = flux.Flux()
    found = [submitted(job, handle) for job in order["jobs"]]
    ids = [job for one in found for job in one["ids"]]
    seen = follow(handle, ids, order["settle_s"])
    for one in found:
        one["jobs"] = []
        for job in one["ids"]:
            keys = {"id": job, "keys": ["jobspec"], "flags": 0}
            spec = json.loads(handle.rpc("job-info.lookup", keys).get()["jobspec"])
            one["jobs"].append({"jobspec": spec, "events": seen[job]})
    for job, events in seen.items():
        if not events or events[-1]["name"] != "clean":
            with contextlib.suppress(OSError):
                flux.job.cancel(handle, job)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
