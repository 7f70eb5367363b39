"""Submits each job twice to a real Slurm, with ``berth:off`` and with a workload, and compares.

The promise as a test: a job that Slurm takes and starts as its user wrote it is also taken and
started with Berth, and nothing that the user chose is another thing afterwards. What Berth is there
to change (partition, nodes, tasks, cores, memory, a longer time limit) may differ.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from differential.verdicts import Ask, Verdict, compared, judged_again
from slurm_cluster import USER, Cluster

STARTED = frozenset(
    ("RUNNING", "COMPLETING", "COMPLETED", "FAILED", "TIMEOUT", "CONFIGURING", "STAGE_OUT")
)
"""States of a job that Slurm did start, whatever became of it then."""

SUBMITTERS = 4
"""Jobs submitted at once: ``salloc`` may wait for seconds."""

_OWN = frozenset(
    [
        "JobId",
        "JobName",
        "Comment",
        "AdminComment",
        "SubmitTime",
        "EligibleTime",
        "AccrueTime",
        "StartTime",
        "EndTime",
        "LastSchedEval",
        "Priority",
        "StdOut",
        "StdErr",
        "StdIn",
        "RunTime",
        "SuspendTime",
        "Reason",
        "JobState",
        "Scheduler",
        "NodeList",
        "BatchHost",
        "Command",
        "SubmitLine",
        "UserId",
        "GroupId",
        "ArrayJobId",
        "ArrayTaskId",
        "HetJobId",
        "HetJobOffset",
        "HetJobIdSet",
        "PreemptEligibleTime",
        "PreemptTime",
        "ExitCode",
        "Restarts",
        "Deadline",
        "SchedNodeList",
        "ReqTRES",
        "AllocTRES",
        "TRES",
        "AllocNode:Sid",
        "Socks/Node",
    ]
)
"""Keys of ``scontrol show job`` that differ between any two jobs, or follow from the others."""
_WHOLE_LINES = frozenset(
    ("Comment", "AdminComment", "Command", "WorkDir", "StdErr", "StdOut", "SubmitLine")
)
_PLACE = frozenset(
    [
        "Partition",
        "NumNodes",
        "NumCPUs",
        "NumTasks",
        "CPUs/Task",
        "MinCPUsNode",
        "MinMemoryNode",
        "MinMemoryCPU",
        "TimeLimit",
        "Features",
        "TresPerNode",
        "OverSubscribe",
        "Exclusive",
        "Gres",
        "NtasksPerN:B:S:C",
    ]
)
"""Keys that Berth may change where its user did not write them."""
OF_THE_PLACE = re.compile(
    r"Node count specification invalid|Requested node configuration is not available|"
    r"Requested partition configuration not available|Requested time limit is invalid|"
    r"Invalid time-min specification|Memory required by task is not available|"
    r"More processors requested than permitted"
)
"""Why Slurm refuses a job in one partition and takes it in another."""
NO_GPU_WANTED = re.compile(r"--gres=none|--gpus(-per-\w+)?=0")
_SENT_BACK = "requeued held"
"""Of a job that was started, and whose environment its node could not make (``--export=NONE``)."""
_TURN = re.compile(
    r"^(Resources|Priority|Nodes required for job are DOWN, DRAINED or reserved\b.*)$"
)
"""Reasons by the queue: which of them follows from what else waits at that moment."""
_HOPELESS = re.compile(
    r"^(BadConstraints|PartitionConfig|PartitionTimeLimit|PartitionNodeLimit|AccountNotAllowed|"
    r"QOSNotAllowed|InvalidQOS|InvalidAccount|ReqNodeNotAvail.*Reserved.*|\w+PerJob\w*)$"
)
"""Reasons that no waiting ends."""
_CHOICES = {
    "OverSubscribe": r"--oversubscribe|--exclusive|-s\b",
    "Exclusive": r"--oversubscribe|--exclusive|-s\b",
    "TresPerNode": r"--gres=|--gpus-per-node",
    "TresPerJob": r"--gpus[= ]|-G",
    "Features": r"--constraint|-C",
    "Partition": r"(--partition=|-p )(?!auto\b)",
}
"""Which of those a user wrote by which option."""


@dataclass(frozen=True)
class SlurmAsk(Ask):
    """One job as a user submits it to Slurm."""

    command: str = "sbatch"
    user: str = USER
    script: str = "#!/bin/sh\nexec true\n"

    @property
    def kept_comment(self) -> bool:
        """The user writes a comment of his own: the workload goes by the environment."""
        return any(word.startswith("--comment") for word in self.words)


@dataclass
class Seen:
    """What became of one submission."""

    accepted: bool
    message: str
    job_id: int | None = None
    record: dict[str, str] = field(default_factory=dict)
    state: str = ""
    reason: str = ""

    @property
    def started(self) -> bool:
        return self.state in STARTED or _SENT_BACK in self.reason

    @property
    def waits_for(self) -> str:
        reason = "its turn" if _TURN.search(self.reason) else self.reason
        return f"{self.state} {reason}".strip()

    @property
    def hopeless(self) -> bool:
        return _HOPELESS.search(self.reason) is not None

    @property
    def was_edited(self) -> bool:
        if not self.record:  # srun --test-only leaves no job
            return re.search(r"in partition (?!auto\b)\S", self.message) is not None
        return " action=edit " in self.record.get("AdminComment", "")

    @property
    def code(self) -> str:
        """Berth's reason, by its code."""
        found = re.search(r" code=(\S+)", self.record.get("AdminComment", ""))
        return found.group(1) if found else "-"


def judge(
    slurm: Cluster, asks: Sequence[SlurmAsk], *, settle_s: float = 20.0
) -> list[Verdict[Seen]]:
    """Submit, look, let go, wait until nothing moves, compare, cancel; what differs once more."""
    return judged_again(lambda some: _judge(slurm, some, settle_s), asks)


def _judge(slurm: Cluster, asks: Sequence[SlurmAsk], settle_s: float) -> list[Verdict[Seen]]:
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        halves = list(pool.map(lambda ask: _both(slurm, ask), asks))
    seen = [one for pair in halves for one in pair if one.job_id is not None]
    records = records_by_id(slurm)
    for one in seen:
        one.record = records.get(one.job_id or 0, {})
    _let_go(slurm, seen, settle_s)
    slurm.cancel_everything()
    return [
        Verdict(ask, plain, placed, differences(ask, plain, placed))
        for ask, (plain, placed) in zip(asks, halves, strict=True)
    ]


def _both(slurm: Cluster, ask: SlurmAsk) -> tuple[Seen, Seen]:
    return _submit(slurm, ask, off=True), _submit(slurm, ask, off=False)


def differences(ask: SlurmAsk, plain: Seen, placed: Seen) -> list[str]:
    """What Berth broke; nothing where the promise held."""
    found = compared(plain, placed, OF_THE_PLACE)
    if not plain.accepted or not placed.accepted:
        return found
    if (
        placed.was_edited
        and placed.record
        and "berth/1 id=" not in placed.record.get("AdminComment", "")
    ):
        found.append("edited without a stamp")
    return [*found, *_choices_changed(ask, plain.record, placed.record)]


def _choices_changed(ask: SlurmAsk, plain: dict[str, str], placed: dict[str, str]) -> list[str]:
    found, text = [], " ".join(ask.words)
    for key in sorted((plain.keys() | placed.keys()) - _OWN):
        before, after = plain.get(key), placed.get(key)
        if key == "TresPerTask":  # since 23.11 the cores of a task stand there, too
            before, after = (re.sub(r"cpu=\d+,?", "", text or "") for text in (before, after))
        if before == after:
            continue
        written = key in _CHOICES and re.search(_CHOICES[key], text) is not None
        if key not in _PLACE or written:
            found.append(f"{key} was {before}, is {after}")
    shorter = _seconds(placed.get("TimeLimit")) < _seconds(plain.get("TimeLimit"))
    if shorter and re.search(r"(^| )(-t|--time(?!-min))", text):
        found.append(f"TimeLimit was {plain['TimeLimit']}, is {placed['TimeLimit']}")
    wanted = placed and re.search(r"--mincpus=(\d+)", text)
    if wanted and int(placed.get("MinCPUsNode", "0")) < int(wanted[1]):
        found.append(f"MinCPUsNode is {placed.get('MinCPUsNode')} and {wanted[1]} were asked")
    none = NO_GPU_WANTED.search(text) and not gpus_of(plain)
    if none and "gpu" in gpus_of(placed):
        found.append(f"it has {gpus_of(placed)} and no GPU was wanted")
    return found


def gpus_of(record: dict[str, str]) -> str:
    """GPUs that a job asked for by node; empty for none."""
    text = record.get("TresPerNode", "")
    return "" if text.endswith(":0") else text


def _seconds(text: str | None) -> float:
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text or "")
    if match is None:
        return float("inf")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _submit(slurm: Cluster, ask: SlurmAsk, *, off: bool) -> Seen:
    if ask.command != "sbatch":
        return _run(slurm, ask, off=off)
    environment = None
    words = ["sbatch", "--hold", "--parsable", *ask.words]
    if ask.kept_comment:
        environment = {"BERTH_WORKLOAD": "off" if off else ask.workload}
    else:
        words.insert(2, f"--comment=berth:{'off' if off else ask.workload}")
    name = _named(words)
    done = slurm.run(*words, user=ask.user, env=environment, stdin=ask.script, check=False)
    seen = Seen(done.returncode == 0, done.stderr)
    if seen.accepted:
        seen.job_id = job_number(slurm, re.match(r"(\d+)", done.stdout), name)
    return seen


def _named(words: list[str]) -> str | None:
    """A name of its own for a job of which ``--quiet`` prints no number."""
    if "--quiet" not in words:
        return None
    name = f"pair-{secrets.token_hex(6)}"
    words.insert(1, f"--job-name={name}")
    return name


def job_number(slurm: Cluster, said: re.Match[str] | None, name: str | None) -> int:
    """The job's number: as the command said it, else by the job's name."""
    if said is not None:
        return int(said[1])
    assert name is not None, "no number, and not for --quiet"
    return int(
        slurm.run("squeue", "-h", "-a", "-t", "all", "-n", name, "-o", "%A").stdout.split()[0]
    )


def _run(slurm: Cluster, ask: SlurmAsk, *, off: bool) -> Seen:
    """``srun`` asks only whether and where it would start; ``salloc`` is given back at once."""
    more = ["--test-only"] if ask.command == "srun" else ["--no-shell", "--immediate=10"]
    words = [ask.command, *more, f"--comment=berth:{'off' if off else ask.workload}", *ask.words]
    name = _named(words) if ask.command == "salloc" else None
    words += ["true"] if ask.command == "srun" else []
    done = slurm.run("timeout", "20", *words, user=ask.user, check=False)
    seen = Seen(done.returncode == 0, done.stderr)
    if ask.command == "srun" and seen.accepted and "--quiet" in words:
        words.remove("--quiet")  # what would be done was not said; asking again does nothing else
        seen.message = slurm.run("timeout", "20", *words, user=ask.user, check=False).stderr
    if ask.command == "salloc" and seen.accepted:
        job_id = job_number(slurm, re.search(r"Granted job allocation (\d+)", done.stderr), name)
        seen.record = records_by_id(slurm).get(job_id, {})
        slurm.run("scancel", str(job_id), check=False)
    if seen.accepted:
        seen.state = "RUNNING"
    return seen


def records_by_id(slurm: Cluster) -> dict[int, dict[str, str]]:
    """``scontrol show job``, by job id; the first record of an array or a heterogeneous job."""
    found: dict[int, dict[str, str]] = {}
    for record in all_records(slurm):
        found.setdefault(int(record["JobId"]), record)
    return found


def all_records(slurm: Cluster) -> list[dict[str, str]]:
    """``scontrol show job``: each job, task of an array and component by itself."""
    found = []
    for text in slurm.run("scontrol", "show", "job", check=False).stdout.split("\n\n"):
        record: dict[str, str] = {}
        for line in text.splitlines():
            key, _, value = line.strip().partition("=")
            if key in _WHOLE_LINES:
                record[key] = value
                continue
            words = [word.partition("=") for word in line.split() if "=" in word]
            record.update((word[0], word[2]) for word in words)
        if record.get("JobId", "").isdigit():
            found.append(record)
    return found


def _let_go(slurm: Cluster, seen: Sequence[Seen], settle_s: float) -> None:
    """Release all, and wait until each has started or waits for a reason of its own."""
    ids = [str(one.job_id) for one in seen]
    with ThreadPoolExecutor(SUBMITTERS) as pool:  # one by one: newer ones try some jobs for long
        list(pool.map(lambda one: _release(slurm, one), ids))
    deadline, before, still_since = time.monotonic() + settle_s, "", time.monotonic()
    while time.monotonic() < deadline:
        text = slurm.run("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%A|%T|%r").stdout
        _take_states(text, seen)
        waiting = [one for one in seen if not one.started]
        if not waiting:
            return
        if text != before:
            before, still_since = text, time.monotonic()
        moving = any(one.reason in ("None", "Priority", "Resources", "") for one in waiting)
        if time.monotonic() - still_since > (6.0 if moving else 2.5):
            return
        time.sleep(0.25)


def _release(slurm: Cluster, job_id: str) -> None:
    slurm.run("timeout", "20", "scontrol", "release", job_id, check=False)


def _take_states(text: str, seen: Sequence[Seen]) -> None:
    states: dict[int, tuple[str, str]] = {}
    for line in text.splitlines():
        number, state, reason = line.split("|", 2)
        if number.isdigit() and states.get(int(number), ("", ""))[0] not in STARTED:
            states[int(number)] = state, reason
    for one in seen:
        if one.job_id in states and not one.started:
            one.state, one.reason = states[one.job_id]
