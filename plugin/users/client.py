"""The store as users without access rights see it: its methods send requests to the users'
socket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from berth.pilot.errors import StoreError, UsageError
from berth.plugin.daemon.client import exchange
from berth.plugin.store.records import (
    DecisionRecord,
    FingerprintRecord,
    ForecastRecord,
    PlacedRun,
    WorkloadRecord,
)
from berth.plugin.users.server import PROTOCOL_VERSION
from berth.predictor.core.forecast import Forecast

TIMEOUT_S = 120.0
"""Seconds to wait for a reply: a forecast may have to wait for other users' forecasts."""
_LONGEST = 256 * 1024 * 1024


def ask_users(path: Path, op: str, *, timeout_s: float = TIMEOUT_S, **fields: object) -> Any:
    """Send one request and return the reply's fields. Raises UsageError as the service does, and
    StoreError."""
    message = {"v": PROTOCOL_VERSION, "op": op}
    message |= {key: value for key, value in fields.items() if value is not None}
    try:
        reply = json.loads(exchange(path, message, timeout_s=timeout_s, longest=_LONGEST))
    except OSError as error:
        raise StoreError(
            f"nobody serves users at {path}: {error.strerror or error}",
            hint="an admin starts it: systemctl start berth-users",
        ) from None
    except ValueError:
        raise StoreError(f"the service at {path} closed the connection") from None
    if not isinstance(reply, dict):
        raise StoreError(f"what listens at {path} is not berth serve --users")
    if "error" in reply:
        raise UsageError(str(reply["error"]), hint=reply.get("hint"))
    return reply


class RemoteStore:
    """The parts of a store that commands read, for a user who may not open it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.decisions = RemoteDecisions(path)
        self.outcomes = RemoteOutcomes(path)
        self._bundles: dict[str, list[str]] = {}

    @property
    def name(self) -> str:
        """Return the store's name for messages."""
        return f"the site's store (by {self._path})"

    def add(
        self,
        document: str,
        *,
        name: str,
        replace: bool,
        share: bool = False,
        script: str | None = None,
        size: float | None = None,
    ) -> tuple[str, Forecast, str | None]:
        """Add a workload of this user; return its name, its forecast, and its name for all users
        (None: not shared)."""
        reply = ask_users(
            self._path,
            "add",
            document=document,
            name=name,
            replace=replace,
            share=share,
            script=script,
            size=size,
        )
        return reply["name"], Forecast.from_json(reply["forecast"]), reply.get("shared")

    def workloads(self) -> list[WorkloadRecord]:
        """Return the user's own and the shared workloads, by name."""
        records: list[WorkloadRecord] = []
        while True:
            after = records[-1].name if records else ""
            reply = ask_users(self._path, "workloads", after=after)
            self._bundles.update(reply["bundles"])
            if not reply["workloads"]:
                return records
            records += [WorkloadRecord(**row) for row in reply["workloads"]]

    def bundles(self, names: Sequence[str]) -> Mapping[str, list[str]]:
        """Return the ids of the bundles that predict these workloads, as of the last call of
        ``workloads``."""
        return {name: self._bundles[name] for name in names if name in self._bundles}

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return the user's own workload of that name, else the shared one, else None."""
        row = ask_users(self._path, "workload", name=name).get("workload")
        return None if row is None else WorkloadRecord(**row)

    def forecasts(self, name: str) -> list[ForecastRecord]:
        """Return the newest forecast of a workload, as a list with at most one record."""
        reply = ask_users(self._path, "workload", name=name)
        return [ForecastRecord(**row) for row in reply.get("forecasts", ())]

    def fingerprints(self, name: str) -> list[FingerprintRecord]:
        """Return the scripts attached to a workload that the user's jobs are matched with."""
        reply = ask_users(self._path, "workload", name=name)
        return [FingerprintRecord(**row) for row in reply.get("scripts", ())]

    def remove_workload(self, name: str) -> bool:
        """Remove the user's own workload; return False where it does not exist."""
        return bool(ask_users(self._path, "remove", name=name)["removed"])

    def refresh(self, names: Sequence[str]) -> list[str]:
        """Predict the user's own workloads again; return their names."""
        return list(ask_users(self._path, "refresh", names=list(names))["refreshed"])

    def share(self, name: str) -> str | None:
        """Share a workload; return its name for all users. None: an admin has to approve it
        first."""
        shared_name: str | None = ask_users(self._path, "share", name=name).get("shared")
        return shared_name


class RemoteDecisions:
    """The decisions on this user's own jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(
        self,
        count: int,
        *,
        user: str | None = None,
        code: str | None = None,
        workload: str | None = None,
        before: DecisionRecord | None = None,
    ) -> list[DecisionRecord]:
        """Return the newest decisions that precede ``before``; only admins may name a ``user``."""
        reply = ask_users(
            self._path,
            "decisions",
            last=count,
            user=user,
            code=code,
            workload=workload,
            before=None if before is None else before.id,
        )
        return [DecisionRecord(**row) for row in reply["decisions"]]

    def get(self, decision: str) -> DecisionRecord | None:
        """Return one decision by its id, or None."""
        row = ask_users(self._path, "decision", id=decision).get("decision")
        return None if row is None else DecisionRecord(**row)


class RemoteOutcomes:
    """The outcomes of this user's own jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of_decisions(self, decisions: Sequence[str]) -> dict[str, list[PlacedRun]]:
        """Return the outcomes of the user's jobs that belong to these decisions, by decision id."""
        by_decision: dict[str, list[PlacedRun]] = {}
        for row in ask_users(self._path, "outcomes", decisions=list(decisions))["outcomes"]:
            by_decision.setdefault(row["decision"], []).append(PlacedRun(**row))
        return by_decision

    def of_decision(self, decision: str) -> list[PlacedRun]:
        """Return the outcomes of the user's jobs that belong to one decision."""
        return self.of_decisions([decision]).get(decision, [])

    def of_job(self, job: str) -> PlacedRun | None:
        """Return the outcome of one of the user's jobs, or None."""
        rows = ask_users(self._path, "outcomes", job=job)["outcomes"]
        return PlacedRun(**rows[0]) if rows else None
