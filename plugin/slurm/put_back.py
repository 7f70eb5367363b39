"""Restores a pending job's own request where Slurm cannot start the job because Berth changed it.

This is the last safeguard: a limit that Slurm does not list, or an option that its Lua interface
hides, may leave a moved job pending for a reason that it would not have had as its user wrote it.
Such a job gets its original request back, once, from what the filter saved in AdminComment
(``was=``; no user can write AdminComment), and its comment says so. The place is then ruled out for
the same user and the same workload until an administrator clears it.

A job whose user or administrator moved it by hand stays where it is; what the filter could not
restore at that moment (``berth_modify``) is restored here, and AdminComment no longer names the
place that Berth had chosen.

Runs as SlurmUser or as an operator, separate from the daemon, and acts on the job's own record
only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from berth.pilot.errors import BerthError, SchedulerError
from berth.plugin.daemon.protocol import stamp
from berth.plugin.scheduler.ruled_out import RuledOut
from berth.plugin.slurm import commands
from berth.plugin.slurm.present_jobs import listed
from berth.plugin.slurm.records import Record, moment_s, records
from berth.policies.codes import Code

log = logging.getLogger("berth.putback")

PATIENCE_S = 600.0
"""Seconds that a job may wait for a condition that can pass by itself (an account's limit, nodes
that are down).
"""

_AT_ONCE = re.compile(
    r"Partition(Config|NodeLimit|TimeLimit|Inactive)|BadConstraints|Invalid(Account|QOS)|"
    r"(Account|QOS)NotAllowed|(Assoc|QOS)(Max|Min)(?!\w*Jobs?Limit$)\w*|DeadLine"
)
"""Pending reasons that waiting does not end, so that the job is put back at once. Limits on a
user's number of jobs are excluded: they do not depend on the place.
"""
_IN_TIME = re.compile(r"(Assoc|QOS)Grp(?!Jobs|SubmitJobs)\w*|ReqNodeNotAvail\S*|PartitionDown")
_STAMP = re.compile(r"(?:^|\s)berth/1 (?P<words>.*)$")
_DONE = "putback="
_FAILED = "failed"
_SAID = "(berth: put back, Slurm said {reason})"
_SORRY = "(berth: cannot be put back, cancel it and submit it with --comment=berth:off)"
_UPDATES = {
    "features": "Features",
    "num_tasks": "NumTasks",
    "cpus_per_task": "CPUsPerTask",
    "min_cpus": "NumCPUs",
    "pn_min_cpus": "MinCPUsNode",
    "ntasks_per_node": "TasksPerNode",
}
"""Keys of ``scontrol update`` for the fields that the filter sets, besides nodes, memory and time.
"""
_UNSET = {"features": "", "num_tasks": "1", "cpus_per_task": "1", "min_cpus": "1",
          "pn_min_cpus": "1", "ntasks_per_node": None}  # fmt: skip
_FIELDS = ("JobID", "Reason", "SubmitTime", "UserName", "Partition", "admin_comment", "comment")
_ONLY_OPERATORS = ("features", "ntasks_per_node")
"""Fields that the filter cannot restore when a user moves the job by hand."""
FOREIGN = frozenset(("gres", "tres_per_job", "tres_per_task", "tres_per_socket"))
"""Fields that ``scontrol update`` cannot restore: it takes no GPUs and no type of GPU away (seen
with Slurm 22.05 and 24.11).
"""


@dataclass(frozen=True, slots=True)
class StuckJob:
    """A pending job that cannot start in the place Berth chose, for a reason of that place."""

    job: str
    user: str
    candidate: str
    workload: str
    reason: str
    was: Mapping[str, str]
    admin_comment: str
    comment: str


def stuck_jobs(now_s: float) -> Iterator[StuckJob]:
    """Yield the pending jobs whose request must be restored now, and finish what is left to restore
    of jobs that were moved by hand. Raises SchedulerError or ToolMissing.
    """
    rows: dict[str, Record] = {}
    for row in listed(_FIELDS, "PENDING"):
        rows.setdefault(row["JobID"], row)  # all tasks of an array have its number
    for row in rows.values():
        words, was = stamped(row["admin_comment"])
        if words.get("action") != "edit" or not was or _DONE[:-1] in words:
            continue
        written = words.get("in", row["Partition"]).split(",")
        if not set(row["Partition"].split(",")) <= set(written):
            _moved_by_hand(row, words, was)
        elif _is_due(row["Reason"], moment_s(row["SubmitTime"], utc=True), now_s):
            yield _stuck(row, words, was)


def _moved_by_hand(row: Record, words: Mapping[str, str], was: Mapping[str, str]) -> None:
    """Restore the fields that only an operator can, and write that the job is where its user put
    it.
    """
    text = stamp(
        words.get("id", "-"), "keep", Code.MOVED_BY_HAND,
        chosen=None, workload=words.get("workload"), bundle=words.get("bundle", ""),
    )  # fmt: skip
    text = f"{_STAMP.sub('', row['admin_comment'])} {text}".strip()
    restored = words_back({key: was[key] for key in _ONLY_OPERATORS if key in was})
    try:
        commands.update_job(row["JobID"], (*restored, f"AdminComment={text}"))
    except BerthError as error:
        log.warning("job %s was moved by hand, and %s", row["JobID"], error.message)


def _is_due(reason: str, submit_s: float | None, now_s: float) -> bool:
    if _AT_ONCE.fullmatch(reason):
        return True
    waits = submit_s is not None and now_s - submit_s >= PATIENCE_S
    return waits and _IN_TIME.fullmatch(reason) is not None


def _stuck(row: Record, words: Mapping[str, str], was: Mapping[str, str]) -> StuckJob:
    return StuckJob(
        job=row["JobID"],
        user=row["UserName"],
        candidate=words.get("to", ""),
        workload=words.get("workload", ""),
        reason=row["Reason"],
        was=was,
        admin_comment=row["admin_comment"],
        comment=row["comment"],
    )


def stamped(admin_comment: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings from the comment that Berth wrote to AdminComment: all its ``key=value``
    words, and the job's original request (``was=``). Both are empty where Berth wrote nothing.
    """
    written = _STAMP.search(admin_comment)
    if written is None:
        return {}, {}
    words = dict(word.split("=", 1) for word in written["words"].split() if "=" in word)
    pairs = (pair.partition(":") for pair in words.get("was", "").split(";"))
    return words, {key: unquote(value) for key, mark, value in pairs if mark}


def put_back(stuck: StuckJob, now_s: float) -> RuledOut:
    """Restore the job's request, note it in the job's comment, and return the place to rule out.

    A job that keeps GPUs that Berth added, or that Slurm does not allow to change, is told how to
    go on. Raises SchedulerError where not even that works.
    """
    said = _SAID.format(reason=stuck.reason)
    stays = not FOREIGN.isdisjoint(stuck.was)
    try:
        words = _told(stuck, _FAILED, _SORRY) if stays else _told(stuck, stuck.reason, said)
        commands.update_job(stuck.job, (*words_back(stuck.was), *words))
        if stuck.reason == "BadConstraints":  # Slurm holds jobs with this reason
            commands.run(("scontrol", "release", stuck.job))
        log.info("job %s put back: Slurm said %s", stuck.job, stuck.reason)
    except BerthError as error:
        log.warning("job %s cannot be put back: %s", stuck.job, error.message)
        commands.update_job(stuck.job, _told(stuck, _FAILED, _SORRY))
    return RuledOut(stuck.candidate, stuck.user, stuck.workload, stuck.reason, stuck.job, now_s)


def _told(stuck: StuckJob, outcome: str, note: str) -> Sequence[str]:
    """Return the ``scontrol update`` words that write the outcome to AdminComment and a note to the
    job's comment.
    """
    comment = " ".join(filter(None, (stuck.comment.partition("(berth: ")[0].strip(), note)))
    return (f"AdminComment={stuck.admin_comment} {_DONE}{outcome}", f"Comment={comment}")


def words_back(was: Mapping[str, str]) -> Sequence[str]:
    """Return the ``scontrol update`` words that restore the request ``was``.

    Values that the user left open get the defaults of the job's own partition.
    """
    partition: Record = {}
    words = []
    if "partition" in was:  # otherwise Berth left the job in its partition
        partition = _partition(was["partition"])
        words.append(f"Partition={partition['PartitionName']}")
    if "min_nodes" in was:
        least, most = was["min_nodes"], was.get("max_nodes", "-")
        if least == "-":
            least, most = "1", "-"
        words.append(
            f"NumNodes={least}-{partition.get('TotalNodes', '1') if most == '-' else most}"
        )
    for key, name in _UPDATES.items():
        value = was.get(key)
        if value == "-":
            value = _UNSET[key]
        if value is not None:
            words.append(f"{name}={value}")
    words += _memory_back(was, partition)
    if "time_limit" in was:
        default = partition.get("DefaultTime", "NONE")
        unset = partition.get("MaxTime", "UNLIMITED") if default == "NONE" else default
        words.append(f"TimeLimit={unset if was['time_limit'] == '-' else was['time_limit']}")
    return words


def _memory_back(was: Mapping[str, str], partition: Record) -> Iterator[str]:
    """Yield the word that restores the memory request, or else the partition's default memory."""
    for key, name, default in (
        ("memory_mib_per_cpu", "MinMemoryCPU", "DefMemPerCPU"),
        ("memory_mib_per_node", "MinMemoryNode", "DefMemPerNode"),
    ):
        requested = was.get(key, "-")
        if requested == "-" and {was.get("memory_mib_per_cpu"), was.get("memory_mib_per_node")} == {
            "-"
        }:
            requested = partition.get(default, "-")
        if requested.isdigit():
            yield f"{name}={requested}"
            return


def _partition(name: str) -> Record:
    """Return the record of a partition by name; ``-`` means the default partition."""
    text = commands.run(("scontrol", "-a", "-o", "show", "partition"))
    for record in records(text, "PartitionName"):
        if record["PartitionName"] == name or (name == "-" and record.get("Default") == "YES"):
            return record
    raise SchedulerError(f"there is no partition {name} any more")
