"""Queries Flux's services and prints their answers as JSON: run by `flux python`, not by Berth.

    flux python services.py state          configuration, resources, queues, counts of jobs, and
                                           the first 1,000 pending jobs
    flux python services.py memory         the same, with memory and architecture by rank
                            (either with the further word `banks`: flux-accounting's limits)
    flux python services.py jobs ID...     job-list's records, or eventlogs of forgotten jobs
    flux python services.py ended SINCE UNTIL
                                           jobs that ended between two Unix times, one per line,
                                           with their decision ids; stdin {ID: end time}: jobs
                                           to leave out

Answers are passed on unchanged; an error is ``{"error": text, "errno": number}``. Self-contained,
as it runs with Flux's own Python (3.6 and later).
"""

import json
import pwd
import re
import sys
from typing import Any, Dict, Iterator, List

Answers = Dict[str, Any]
MOST_WAITING = 1000
"""The most pending jobs that are read one by one."""


def answer_of(future: Any) -> Any:
    """Return a service's answer unchanged, or its error as ``{"error": text, "errno": number}``."""
    try:
        return json.loads(future.get_str() or "{}")
    except OSError as error:
        return {"error": str(error), "errno": error.errno}


def state(handle: Any) -> Answers:
    """Return the instance's configuration, resources, queues and job counts, read in two rounds."""
    waiting = {"states": ["priority", "sched"]}
    topics: Dict[str, Answers] = {
        "config.get": {},
        "resource.sched-status": {},
        "job-list.job-stats": {},
        "job-list.list": {
            "max_entries": MOST_WAITING, "attrs": ["urgency", "queue"], "constraint": waiting,
        },
    }  # fmt: skip
    futures = {topic: handle.rpc(topic, terms, nodeid=0) for topic, terms in topics.items()}
    answers = {topic: answer_of(future) for topic, future in futures.items()}
    queues = answers["config.get"].get("queues") or {}
    futures = {
        name: handle.rpc("job-manager.queue-status", {"name": name} if name else {}, nodeid=0)
        for name in queues or [""]
    }
    answers["job-manager.queue-status"] = {
        name: answer_of(future) for name, future in futures.items()
    }
    answers["version"] = handle.attr_get("version")
    try:
        answers["owner"] = pwd.getpwuid(int(handle.attr_get("security.owner"))).pw_name
    except (KeyError, ValueError, TypeError, OSError):
        answers["owner"] = None
    answers["host"] = handle.attr_get("hostlist") or handle.attr_get("hostname")
    return answers


def banks(handle: Any) -> Answers:
    """Return users, their banks and queues, as flux-accounting's plugin reports them."""
    answer: Answers = answer_of(
        handle.rpc("job-manager.jobtap-query", {"name": "mf_priority.so"}, nodeid=0)
    )
    return answer


def with_memory(handle: Any) -> Answers:
    """Return ``state`` with memory (bytes) and architecture by rank, read once per set of equal
    nodes.
    """
    answers = state(handle)
    kinds: Dict[str, List[int]] = {}
    everything = answers["resource.sched-status"].get("all", {}).get("execution", {})
    for entry in everything.get("R_lite", []):
        for rank in ranks(entry["rank"]):
            kinds.setdefault(json.dumps(entry["children"], sort_keys=True), []).append(rank)
    answers["memory"] = {}
    for members in kinds.values():
        try:
            xml = handle.rpc("resource.topo-get", {}, nodeid=members[0]).get_str()
        except OSError:
            continue
        sizes = [int(n) for n in re.findall(r'type="NUMANode"[^>]* local_memory="(\d+)"', xml)]
        names = re.findall(r'<info name="Architecture" value="([^"]+)"', xml)
        for rank in members:
            answers["memory"][rank] = {"bytes": sum(sizes), "architecture": (names or [None])[0]}
    return answers


def ranks(idset: str) -> Iterator[int]:
    """Yield the numbers in an idset such as ``0-2,5``."""
    for part in idset.strip("[]").split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def jobs(handle: Any, names: List[str]) -> Answers:
    """Return ``{"job": ...}``, or ``{"eventlog": ..., "jobspec": ...}``, by the requested id."""
    from flux.job import JobID  # noqa: PLC0415 - the rest needs it not

    numbers = {}
    for name in names:
        try:
            numbers[name] = int(JobID(name))
        except ValueError:
            continue
    futures = {
        name: handle.rpc("job-list.list-id", {"id": number, "attrs": ["all"]}, nodeid=0)
        for name, number in numbers.items()
    }
    answers = {name: answer_of(future) for name, future in futures.items()}
    for name, answer in answers.items():
        if "job" not in answer:
            message = {"id": numbers[name], "keys": ["eventlog", "jobspec"], "flags": 0}
            answers[name] = answer_of(handle.rpc("job-info.lookup", message, nodeid=0))
    return answers


LISTED = (
    "userid",
    "queue",
    "state",
    "result",
    "waitstatus",
    "t_submit",
    "t_run",
    "t_cleanup",
    "t_inactive",
    "nodelist",
    "nnodes",
    "ncores",
    "duration",
    "name",
    "bank",
)
AT_ONCE = 200
"""The number of jobspecs requested before the first answer is awaited."""


def ended(
    handle: Any, since_s: float, until_s: float, known: Dict[str, float]
) -> Iterator[Answers]:
    """Yield ``{"id": ..., "job": ..., "stamp": ..., "gpus": ...}`` for each ended job, oldest
    first.
    """
    from flux.job import JobID  # noqa: PLC0415
    from flux.job.list import job_list_inactive  # noqa: PLC0415

    listed = job_list_inactive(handle, since=since_s, max_entries=0, attrs=["all"]).get_jobs()
    jobs_ = {}
    for job in reversed(listed):
        name = "f" + str(JobID(job["id"]).f58)[1:]  # not ƒ, in any locale
        if job["t_inactive"] <= until_s and known.get(name) != job.get("t_cleanup"):
            jobs_[name] = job
    names = list(jobs_)
    for begin in range(0, len(names), AT_ONCE):
        futures = {}
        for name in names[begin : begin + AT_ONCE]:
            message = {"id": jobs_[name]["id"], "keys": ["jobspec"], "flags": 0}
            futures[name] = handle.rpc("job-info.lookup", message)
        for name, future in futures.items():
            job = {key: jobs_[name][key] for key in LISTED if key in jobs_[name]}
            answer = answer_of(future)
            yield {"id": name, "job": job, **stamp_of(answer)}


def stamp_of(answer: Answers) -> Answers:
    """Return Berth's decision text (``stamp``) and the GPUs from the jobspec in ``answer``, which
    job-list does not report.
    """
    if "error" in answer:
        return {"error": answer["error"], "errno": answer["errno"]}
    try:
        spec = json.loads(answer["jobspec"])
        stamp = ((spec["attributes"].get("user") or {}).get("berth") or {}).get("decision")
        return {"stamp": stamp, "gpus": gpus_in(spec["resources"])}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {"stamp": None, "gpus": None}  # a jobspec form that Berth's filter does not change


def gpus_in(vertices: List[Any]) -> int:
    """Return the number of GPUs in a jobspec's resources. Raises TypeError for a range as
    a count.
    """
    total = 0
    for vertex in vertices:
        within = 1 if vertex["type"] == "gpu" else gpus_in(vertex.get("with") or [])
        total += int(vertex["count"]) * within if within else 0
    return total


def main() -> None:
    """Print the answer to the query that the command-line arguments name."""
    import flux  # noqa: PLC0415 - only `flux python` has it

    handle = flux.Flux()
    question = sys.argv[1]
    if question == "ended":
        for line in ended(handle, float(sys.argv[2]), float(sys.argv[3]), json.load(sys.stdin)):
            print(json.dumps(line))
        return
    if question == "jobs":
        answer = jobs(handle, sys.argv[2:])
    else:
        answer = {"state": state, "memory": with_memory}[question](handle)
        if sys.argv[2:] == ["banks"]:
            answer["banks"] = banks(handle)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
