"""Reads who may use a partition, and how much at once: associations and QOS from ``sacctmgr``.

Slurm looks for a limit in the partition's QOS first, then in the job's QOS (the other way round
where the job's QOS has OverPartQOS), then in the association and the accounts above it; the first
place that sets the limit decides. Source: manual pages sacctmgr(1) and resource_limits, Slurm
22.05.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from berth.pilot.errors import BerthError, SchedulerError
from berth.plugin.scheduler import ClusterFacts
from berth.plugin.slurm import commands
from berth.plugin.slurm.commands import read_configuration
from berth.plugin.slurm.records import duration_s
from berth.policies.limits import Denied, Limit, Rights, Scope

_IN_BOTH = ("maxtresperjob", "maxtrespernode", "maxtresminsperjob", "maxwall", "grptres",
            "grptresmins", "grptresrunmins", "grpwall", "grpsubmitjobs", "grpjobs")  # fmt: skip
_ASSOCIATION = ("account", "user", "partition", "parentname", "qos", "defaultqos", "maxsubmitjobs",
                "maxjobs", *_IN_BOTH)  # fmt: skip
_QUALITY = ("name", "flags", "preempt", "maxtresperuser", "maxtresperaccount", "mintresperjob",
            "maxsubmitjobsperuser", "maxsubmitjobsperaccount", "maxjobsperuser",
            "maxjobsperaccount", *_IN_BOTH)  # fmt: skip
_USER = ("user", "defaultaccount")

_MINUTE_S = 60.0
_MIB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
_TRES = (
    ("maxtresperjob", Scope.JOB),
    ("maxtresperuser", Scope.JOB),
    ("maxtresperaccount", Scope.JOB),
    ("grptres", Scope.JOB),
    ("maxtrespernode", Scope.NODE),
    ("mintresperjob", Scope.LEAST),
    ("maxtresminsperjob", Scope.SECONDS),
    ("grptresmins", Scope.SECONDS),
    ("grptresrunmins", Scope.SECONDS),
)
_TIMES = ("maxwall", "grpwall")
_SUBMITS = ("maxsubmitjobsperuser", "maxsubmitjobsperaccount", "grpsubmitjobs")
_JOBS = ("maxjobs", "maxjobsperuser", "maxjobsperaccount", "grpjobs")
_CONSUMED = ("grptresmins",)
_TOGETHER = ("maxtresperuser", "maxtresperaccount", "grptres")
_DEFAULT_QOS = "normal"

Row = Mapping[str, str]


@dataclass(frozen=True)
class UnknownRights:
    """Rights that could not be read: every partition is denied, so Berth moves no job."""

    problem: str

    @property
    def digest(self) -> str:
        """Return a text that changes whenever these rights change (see Rights)."""
        return f"unknown: {self.problem}"

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """Return a denial that names the problem (see Rights)."""
        return Denied(f"your limits are not known: {self.problem}")


class Accounts:
    """The associations and QOS of one cluster, as read at one moment."""

    def __init__(
        self,
        associations: Sequence[Row],
        qualities: Sequence[Row],
        users: Sequence[Row],
        *,
        partition_qos: Mapping[str, str],
        limits_enforced: bool,
        qos_enforced: bool,
    ) -> None:
        self._of_user = {(r["account"], r["user"], r["partition"]): r for r in associations}
        self._of_account = {r["account"]: r for r in associations if not r["user"]}
        self._qualities = {r["name"]: r for r in qualities}
        self._default_account = {r["user"]: r["defaultaccount"] for r in users}
        self._partition_qos = dict(partition_qos)
        self._limits_enforced, self._qos_enforced = limits_enforced, qos_enforced
        self.preempted = frozenset(
            name for row in qualities for name in row.get("preempt", "").split(",") if name
        )
        """The QOS whose jobs may be interrupted by jobs of another QOS."""
        self._known: dict[object, tuple[Limit, ...] | Denied] = {}
        text = repr(
            (
                [sorted(r.items()) for r in (*associations, *qualities, *users)],
                sorted(partition_qos.items()),
                limits_enforced,
                qos_enforced,
            )
        )
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """Return the limits of a user's jobs in a partition, or a denial with its reason (see
        Rights).
        """
        key = (user, account, qos, queue)
        limits = self._known.get(key)
        if limits is None:
            limits = self._known[key] = self._limits(user, account, qos, queue)
        return limits

    def _limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        name = account or self._default_account.get(user, "")
        own = self._of_user.get((name, user, queue)) or self._of_user.get((name, user, ""))
        if own is None:
            return Denied(f"account {name or '(none)'} gives {user} no access to {queue}")
        quality = self._quality_of(own, qos, queue)
        if isinstance(quality, Denied):
            return quality
        sources = [(f"QOS {r['name']}", r) for r in self._order(quality, queue)]
        partition = self._qualities.get(self._partition_qos.get(queue, ""))
        if partition is not None and any(partition[key] for key in _SUBMITS):
            return Denied(f"QOS {partition['name']} of {queue} limits how many jobs are submitted")
        chain = [(f"the association of {user} with account {name}", own), *self._above(name)]
        if any(row.get(key) == "0" for _, row in (*sources, *chain) for key in _JOBS):
            return Denied(f"you may run no job in {queue}")
        return tuple(_first_set(sources, chain)) if self._limits_enforced else ()

    def _quality_of(self, own: Row, requested: str | None, queue: str) -> Row | Denied | None:
        allowed = own["qos"].split(",")
        name = requested or own["defaultqos"]
        if not name:
            name = _DEFAULT_QOS if _DEFAULT_QOS in allowed or len(allowed) != 1 else allowed[0]
        if self._qos_enforced and name not in allowed:
            return Denied(f"QOS {name} is not yours in {queue}")
        return self._qualities.get(name)

    def _order(self, quality: Row | None, queue: str) -> list[Row]:
        partition = self._qualities.get(self._partition_qos.get(queue, ""))
        both = [row for row in (partition, quality) if row is not None]
        if quality is not None and "OverPartQOS" in quality["flags"]:
            both.reverse()
        return both

    def _above(self, account: str) -> Iterator[tuple[str, Row]]:
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            row = self._of_account.get(account)
            if row is None:
                return
            yield f"account {account}", row
            account = row["parentname"]


def _first_set(
    qualities: Iterable[tuple[str, Row]], chain: Iterable[tuple[str, Row]]
) -> Iterator[Limit]:
    """Yield each limit from the first place where Slurm finds it; limits of the association and of
    all accounts above it apply together.
    """
    seen: set[tuple[str, str]] = set()
    for source, row in qualities:
        limits = list(_set_in(row, source))
        yield from (limit for key, limit in limits if key not in seen)
        seen.update(key for key, _ in limits)
    for source, row in chain:
        yield from (limit for key, limit in _set_in(row, source) if key not in seen)


def _set_in(row: Row, source: str) -> Iterator[tuple[tuple[str, str], Limit]]:
    for key, scope in _TRES:
        for resource, amount in _tres(row.get(key, "")):
            most = amount * (_MINUTE_S if scope is Scope.SECONDS else 1.0)
            if key in _CONSUMED and resource.startswith("gres/"):
                most = 0.0  # sacctmgr does not report how much of the budget is used
            yield (key, resource), Limit(scope, most, source, resource, key in _TOGETHER)
    for key in _JOBS:
        if row.get(key, "").isdigit():
            yield (key, ""), Limit(Scope.RUNNING, float(row[key]), source)
    for key in _TIMES:
        seconds = duration_s(row.get(key))
        if seconds is not None:
            yield (key, ""), Limit(Scope.TIME, seconds, source)


def _tres(text: str) -> Iterator[tuple[str, float]]:
    """Yield names and amounts of ``cpu=4,mem=3G,gres/gpu:h200=1``; memory in MiB. Raises
    SchedulerError.
    """
    for part in filter(None, text.split(",")):
        name, _, amount = part.rpartition("=")
        unit = amount[-1:] if amount[-1:] in "KMGTP" else ""
        try:
            number = float(amount.removesuffix(unit)) if unit else float(amount)
        except ValueError:
            raise SchedulerError(f"sacctmgr wrote a limit that cannot be read: {part!r}") from None
        if name in ("mem", "vmem"):
            number *= _MIB[unit]
        elif unit:
            number *= _MIB[unit] * 2.0**20
        yield name, number


def read_rights(partition_qos: Mapping[str, str]) -> Rights | None:
    """Return the limits that slurmctld enforces; None: it enforces none.

    ``partition_qos``: QOS by partition, for partitions that have one. Raises SchedulerError or
    ToolMissing.
    """
    config = read_configuration()
    enforced = config.get("AccountingStorageEnforce", "none").lower().split(",")
    if "slurmdbd" not in config.get("AccountingStorageType", "") or "none" in enforced:
        return None
    strict = "limits" in enforced or "safe" in enforced
    if not strict and not {"associations", "qos", "wckeys"} & set(enforced):
        return None
    cluster = config.get("ClusterName", "")
    associations = _rows(("show", "assoc", f"cluster={cluster}"), _ASSOCIATION)
    return Accounts(
        associations,
        _rows(("show", "qos"), _QUALITY),
        _rows(("show", "user"), _USER),
        partition_qos=partition_qos,
        limits_enforced=strict,
        qos_enforced="qos" in enforced,
    )


def _rows(words: Sequence[str], columns: Sequence[str]) -> list[Row]:
    text = commands.run(("sacctmgr", "-n", "-P", *words, f"format={','.join(columns)}"))
    rows: list[Row] = []
    for line in text.splitlines():
        values = line.split("|")
        if len(values) != len(columns):
            raise SchedulerError(f"sacctmgr wrote something unreadable: {line[:80]!r}")
        rows.append(dict(zip(columns, values, strict=True)))
    return rows


log = logging.getLogger("berth.serve.accounts")

_OLDEST_S = 3600.0
"""Seconds for which the last limits are still used while they cannot be read again."""


class RightsReader:
    """Reads the limits at most every ``period_s`` seconds, and returns the last limits in
    between.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._queues: dict[str, str] = {}
        self._read_s: float | None = None
        self._tried_s: float | None = None
        self._rights: Rights | None = None
        self._problem: str | None = None

    def of(self, facts: ClusterFacts) -> Rights | None:
        """Return the limits as last read; None: Slurm enforces none.

        Never raises: where limits cannot be read for over an hour, everything is denied.
        """
        now_s = time.monotonic()
        queues = {name: q.qos for name, q in facts.queues.items() if q.qos is not None}
        fresh = self._tried_s is not None and now_s - self._tried_s < self._period_s
        if fresh and queues == self._queues:
            return self._rights
        self._tried_s, self._queues = now_s, queues
        try:
            self._rights, self._read_s, self._problem = read_rights(queues), now_s, None
        except BerthError as error:
            if error.message != self._problem:
                log.warning("limits of accounts cannot be read: %s", error.message)
            self._problem = error.message
            if self._read_s is None or now_s - self._read_s > _OLDEST_S:
                self._rights = UnknownRights(error.message)
        return self._rights
