"""Runs each job twice to its end, with ``berth:off`` and with a workload, and compares what it did.

The promise as a test: what succeeds as its user wrote it succeeds placed, as many copies run, each
step and script is told as many tasks and cores (unless its program uses whatever it is given), the
memory is never less, and who submitted it can read its number. A job that does not succeed as
written says nothing.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from differential.verdicts import Ask, Verdict, compared, judged_again
from slurm_cluster import USER, Cluster
from slurm_differential.outcome_worlds import FOLLOWING, LOSSES, SHORTER, is_slower_than_staying
from slurm_differential.pairs import (
    NO_GPU_WANTED,
    OF_THE_PLACE,
    SUBMITTERS,
    Seen,
    all_records,
    gpus_of,
    job_number,
)

from berth.plugin.slurm.records import duration_s

STILL_S = 8.0
"""Jobs of which none runs and none changes for so long wait for what does not come."""
_OF_CLIENT = {
    "array": ("--array=0-2",),
    "parsable": ("--parsable",),
    "quiet": ("--quiet",),
    "wait": ("--wait",),
}
_ID = {
    "parsable": re.compile(r"(\d+)\n"),
    "merged": re.compile(r"(?:\S+\s+){3}(\d+)\s"),
    "quiet": re.compile(r""),
}
_SAID_ID = re.compile(r"Submitted batch job (\d+)\n")
_OF_SLURM = re.compile(r"(srun|slurmstepd|sbatch): ")
_BY_NODE = ("--mem=", "--exclusive")
"""Who asks for these has his memory by node."""
_MAY_GROW = ("thread", "core")
"""Labels of copies that a script starts by the cores it was given."""


@dataclass(frozen=True)
class OutcomeAsk(Ask):
    """One job as a user submits it, and what its script does."""

    command: str = "sbatch"
    body: str = "true\n"
    """With ``{tools}`` for the folder of the tools; after ``#!`` it is the whole script."""
    client: str = "file"
    by_environment: bool = False
    """The workload goes by ``BERTH_WORKLOAD``, not by the comment."""
    form: tuple[str, ...] = ()
    comment: str = ""
    """The user's own, with ``MARK`` where the workload's name stands in it."""
    arguments: tuple[str, ...] = ()
    """Of the script."""

    @property
    def traits(self) -> tuple[str, ...]:
        return self.form

    def __str__(self) -> str:
        return f"{' '.join((self.command, *self.words))} [{', '.join(self.form[2:])}]"


@dataclass
class Outcome(Seen):
    """What became of one submission, whose script ran."""

    printed: str = ""
    """What the client read."""
    records: list[dict[str, str]] = field(default_factory=list)
    """``scontrol show job``: of each task where it is an array."""
    copies: list[dict[str, str]] = field(default_factory=list)
    """What each copy of the program wrote down."""
    output: str = ""
    """The jobs' own output."""

    @property
    def started(self) -> bool:
        return self.state not in ("", "PENDING", "CANCELLED")

    @property
    def succeeded(self) -> bool:
        return bool(self.records) and all(
            (one["JobState"], one["ExitCode"]) == ("COMPLETED", "0:0") for one in self.records
        )

    def sum_of(self, key: str) -> int:
        return sum(_number(one, key) for one in self.records)

    @property
    def memory_mb(self) -> float:
        return sum(_memory_mb(one) for one in self.records)

    @property
    def memory_mb_per_node(self) -> float:
        """Of the job or task that has the least."""
        return min(_memory_mb(one) / _number(one, "NumNodes") for one in self.records)


def judge(slurm: Cluster, asks: Sequence[OutcomeAsk]) -> list[Verdict[Outcome]]:
    """Run all, wait for their ends, compare; what differs once more, alone."""
    return judged_again(lambda some: _judge(slurm, some), asks)


def _judge(slurm: Cluster, asks: Sequence[OutcomeAsk]) -> list[Verdict[Outcome]]:
    halves = [(ask, off) for ask in asks for off in (True, False)]
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        outcomes = list(pool.map(lambda half: _submit(slurm, half[0], off=half[1]), halves))
    _await_ends(slurm)
    _collect(slurm, [one for one in outcomes if one.job_id is not None])
    slurm.cancel_everything()
    for path in (slurm.work / "seen").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    pairs = zip(asks, outcomes[::2], outcomes[1::2], strict=True)
    return [Verdict(ask, one, other, differences(ask, one, other)) for ask, one, other in pairs]


def _submit(slurm: Cluster, ask: OutcomeAsk, *, off: bool) -> Outcome:
    mark = "off" if off else ask.workload
    words = ["--output=seen/%j.out", "--error=seen/%j.out"] if ask.command == "sbatch" else []
    environment = {"BERTH_WORKLOAD": mark} if ask.by_environment else {}
    comment = ask.comment.replace("MARK", mark)
    if comment or not ask.by_environment:
        words.append(f"--comment={comment or f'berth:{mark}'}")
    own = list(ask.words)
    if ask.client == "environment" and own[:1] == ["-p"]:
        environment["SBATCH_PARTITION"] = own[1]
        del own[:2]
    words += own
    name = None
    if ask.client == "quiet" or ask.command != "sbatch":
        name = f"pair-{secrets.token_hex(6)}"
        words.append(f"--job-name={name}")
    body = ask.body.replace("{tools}", str(slurm.work / "job_tools"))
    command, stdin = _command(slurm, ask, words, body)
    done = slurm.run(*command, user=USER, env=environment, stdin=stdin, check=False)
    outcome = Outcome(done.returncode == 0, done.stderr, printed=done.stdout)
    number = re.search(r"(?:^|Submitted batch job )(\d+)$", done.stdout, re.MULTILINE)
    if outcome.accepted and (number is not None or name is not None):
        outcome.job_id = job_number(slurm, number if name is None else None, name)
    return outcome


def _command(
    slurm: Cluster, ask: OutcomeAsk, words: list[str], body: str
) -> tuple[list[str], str | None]:
    """What is started, and what it reads."""
    if ask.command != "sbatch":
        return [ask.command, *words, "sh", "-c", body], None
    if ask.client == "wrap":
        return ["sbatch", *words, f"--wrap={body}"], None
    header = ""
    if ask.client == "header":
        header = "".join(f"#SBATCH {word}\n" for word in _by_option(words))
        words = []
    text = body if body.startswith("#!") else f"#!/bin/bash\n{header}{body}"
    if ask.client == "stdin":
        return ["sbatch", *words], text
    script = slurm.work / "seen" / f"{secrets.token_hex(6)}.sh"
    script.write_bytes(text.encode(errors="surrogateescape"))
    words = [*_OF_CLIENT.get(ask.client, ()), *words]
    command = ["sbatch", *words, str(script), *ask.arguments]
    if ask.client == "merged":
        command = ["sh", "-c", f"{shlex.join(command)} 2>&1"]
    return command, None


def _by_option(words: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for word in words:
        if word.startswith("-"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def _await_ends(slurm: Cluster) -> None:
    """Until no job runs and none will."""
    before, since = "", time.monotonic()
    while True:
        text = slurm.run("squeue", "-h", "-a", "-r", "-o", "%A|%T").stdout
        if not text:
            return
        if text != before:
            before, since = text, time.monotonic()
        running = re.search(r"\|(?!PENDING)", text) is not None
        if time.monotonic() - since > (60.0 if running else STILL_S):
            return
        time.sleep(0.2)


def _collect(slurm: Cluster, outcomes: Sequence[Outcome]) -> None:
    records: dict[int, list[dict[str, str]]] = {}
    for record in all_records(slurm):
        number = record.get("ArrayJobId") or record.get("HetJobId") or record["JobId"]
        records.setdefault(int(number), []).append(record)
    for outcome in outcomes:
        mine = records.get(outcome.job_id or 0, [])
        outcome.records = sorted(mine, key=lambda one: one.get("ArrayTaskId", ""))
        if not mine:
            continue
        failed = [one for one in mine if one["JobState"] != "COMPLETED"]
        outcome.record = (failed or mine)[0]
        outcome.state, outcome.reason = outcome.record["JobState"], outcome.record["Reason"]
        seen = slurm.work / "seen"
        for one in outcome.records:
            outcome.copies += _copies(seen / one["JobId"])
            outcome.output += _text(seen / f"{one['JobId']}.out")


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _copies(path: Path) -> list[dict[str, str]]:
    """What copies wrote: words ``key=value`` a line."""
    return [
        dict(word.split("=", 1) for word in line.split()[1:]) for line in _text(path).splitlines()
    ]


def differences(ask: OutcomeAsk, plain: Outcome, placed: Outcome) -> list[str]:
    """What Berth broke of a job that succeeds as written."""
    if not plain.succeeded:
        return []
    found = compared(plain, placed, OF_THE_PLACE)
    if found:
        return found
    unread = _unread(ask, placed)
    if unread is not None:
        found.append(unread)
    if placed.job_id is None:
        return found
    where = f"in {placed.record.get('Partition')}" if placed.records else "nowhere"
    if not placed.succeeded:
        how = f"{placed.state} {placed.record.get('ExitCode')}"
        return [*found, f"{how} {where}: {placed.output.strip()[-240:]!r}"]
    found += _did(ask, plain, placed)
    if placed.was_edited:  # else it ran on other nodes of the same partition by chance
        found += _held(ask, plain, placed)
    return [f"{one} {where}" for one in found]


def _unread(ask: OutcomeAsk, placed: Outcome) -> str | None:
    """Who reads the number in the client's way gets another one, or none."""
    if ask.command != "sbatch":
        return None
    way = _ID.get(ask.client, _SAID_ID)
    read = way.match(placed.printed)
    alone = read is not None and (ask.client == "merged" or read.end() == len(placed.printed))
    if alone and read is not None and (not read.groups() or int(read[1]) == placed.job_id):
        return None
    return f"the number cannot be read from {placed.printed[:200]!r}"


def _did(ask: OutcomeAsk, plain: Outcome, placed: Outcome) -> list[str]:
    """Other copies, or copies that were told other things."""
    found = []
    said, now_said = (_said(one.output) for one in (plain, placed))
    if said != now_said:
        found.append(f"it printed {sorted((now_said - said) or now_said)!r} for {sorted(said)!r}")
    if ask.workload == FOLLOWING:
        return found
    before, after = _count(plain), _count(placed)
    for label in sorted(before.keys() | after.keys()):
        if before[label] == 0 or (label in _MAY_GROW and before[label] <= after[label]):
            continue
        per_node = before[label] == plain.sum_of("NumNodes")
        if label == "node" and per_node and after[label] == placed.sum_of("NumNodes"):
            continue
        if before[label] != after[label] and not _fills_nodes(ask, label, plain, placed):
            found.append(f"{after[label]} copies of {label} for {before[label]}")
    ranks = [{(c["label"], c["SLURM_PROCID"]) for c in one.copies} for one in (plain, placed)]
    if before == after and len(ranks[0]) > len(ranks[1]):
        found.append(f"{len(ranks[1])} ranks for {len(ranks[0])}")
    met = [max((int(c.get("met", 0)) for c in one.copies), default=0) for one in (plain, placed)]
    if met[1] < met[0]:
        found.append(f"{met[1]} steps at once for {met[0]}")
    for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_CPUS_PER_TASK"):
        told, now = (_told(one, name) for one in (plain, placed))
        if told and now < told:
            found.append(f"the script is told {name}={now or '-'} for {told}")
    return found


def _said(output: str) -> Counter[str]:
    """The lines of a job's output, Slurm's own messages left out, without numbers."""
    lines = (line for line in output.splitlines() if not _OF_SLURM.match(line))
    return Counter(re.sub(r"\d+", "N", line) for line in lines)


def _count(outcome: Outcome) -> Counter[str]:
    return Counter(copy["label"] for copy in outcome.copies)


def _told(outcome: Outcome, name: str) -> int:
    """What the script itself reads in a variable; 0: it is not there."""
    texts = [copy.get(name, "-") for copy in outcome.copies if copy["label"] == "batch"]
    return min((int(text) if text.isdigit() else 0 for text in texts), default=0)


def _fills_nodes(ask: OutcomeAsk, label: str, plain: Outcome, placed: Outcome) -> bool:
    """Whole nodes that the user asked for: Slurm starts as many copies as have room there."""
    per_copy = [one.sum_of("NumCPUs") / max(1, _count(one)[label]) for one in (plain, placed)]
    return "--exclusive" in ask.words and per_copy[0] == per_copy[1]


def _held(ask: OutcomeAsk, plain: Outcome, placed: Outcome) -> list[str]:
    """Fewer tasks or cores, less memory, time or protection, more GPUs or a higher bill."""
    found = []
    for key in () if ask.workload == FOLLOWING else ("NumTasks", "CPUs/Task"):
        before, after = plain.sum_of(key), placed.sum_of(key)
        if after < before or (key == "NumTasks" and after != before):
            found.append(f"{key} is {after} for {before}")
    cores, now_cores = (sum(map(_cores, one.records)) for one in (plain, placed))
    if now_cores < cores and "--exclusive" not in ask.words and ask.workload != FOLLOWING:
        found.append(f"{now_cores:g} physical cores for {cores:g}")
    found += _got_there(ask, plain, placed)
    before_s, after_s = (
        duration_s(one.record.get("TimeLimit")) or math.inf for one in (plain, placed)
    )
    if after_s < before_s:
        found.append(f"a time limit of {after_s:g} s for {before_s:g}")
    billed, now_billed = (sum(map(_billing, one.records)) for one in (plain, placed))
    if ask.workload == FOLLOWING:
        billed *= SHORTER  # on more cores, for a shorter time
    if now_billed > billed and "--exclusive" not in ask.words:
        found.append(f"it is billed {now_billed:g} for {billed:g}")
    none_wanted = NO_GPU_WANTED.search(f"{' '.join(ask.words)} {ask.body}")
    if none_wanted and not gpus_of(plain.record) and "gpu" in gpus_of(placed.record):
        found.append(f"it has {gpus_of(placed.record)} and no GPU was wanted")
    if any(word.startswith(_BY_NODE) for word in ask.words):
        # Of how many nodes Slurm makes it, and of which, follows from what else runs.
        before_mb, after_mb = plain.memory_mb_per_node, placed.memory_mb_per_node
    else:
        before_mb, after_mb = plain.memory_mb, placed.memory_mb
    if after_mb < before_mb:
        found.append(f"{after_mb:g} MB for {before_mb:g}")
    return found


def _number(record: dict[str, str], key: str) -> int:
    """The first of a range; 0: none."""
    match = re.match(r"\d+", record.get(key, ""))
    return int(match[0]) if match else 0


def _allocated(record: dict[str, str]) -> str:
    """``TRES`` (before 23.11) or ``AllocTRES``."""
    return record.get("AllocTRES") or record.get("TRES", "")


def _got_there(ask: OutcomeAsk, plain: Outcome, placed: Outcome) -> list[str]:
    """What the place is, whatever the job's record says."""
    place = placed.record.get("Partition", "")
    found = [f"it {LOSSES[place]}"] if place in LOSSES else []
    if is_slower_than_staying(ask.workload, place):
        found.append("it is predicted slower than staying")
    added = gpus_of(placed.record) and not gpus_of(plain.record)
    if added and any(_number(one, "NumNodes") > 1 for one in placed.records):
        found.append("it has GPUs of several nodes, and the site adds one")
    return found


def _cores(record: dict[str, str]) -> float:
    """Physical ones: the nodes named ``h`` count two threads of each."""
    return _number(record, "NumCPUs") / (2 if record.get("NodeList", "").startswith("h") else 1)


def _billing(record: dict[str, str]) -> float:
    match = re.search(r"\bbilling=([\d.]+)", _allocated(record))
    return float(match[1]) if match else 0.0


def _memory_mb(record: dict[str, str]) -> float:
    match = re.search(r"\bmem=([\d.]+)([KMGT]?)", _allocated(record))
    if match is None:
        return 0.0
    return float(match[1]) * {"K": 2**-10, "": 1, "M": 1, "G": 2**10, "T": 2**20}[match[2]]
