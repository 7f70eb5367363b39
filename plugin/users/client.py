"""The store as its users see it: the same questions, asked over the users' socket."""

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
    OutcomeRecord,
    WorkloadRecord,
)
from berth.plugin.users.server import PROTOCOL_VERSION
from berth.predictor.core.forecast import Forecast

TIMEOUT_S = 120.0
"""A forecast may have to wait for those of others."""
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
    """What commands read of a store, for a user who may not open it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.decisions = RemoteDecisions(path)
        self.outcomes = RemoteOutcomes(path)
        self._bundles: dict[str, list[str]] = {}

    @property
    def name(self) -> str:
        """Return the store's name in messages."""
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
        """Add a workload as one's own: its name, its forecast, and the name that all have it by."""
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
        """Return one's own workloads and the shared ones, by name."""
        records: list[WorkloadRecord] = []
        while True:
            after = records[-1].name if records else ""
            reply = ask_users(self._path, "workloads", after=after)
            self._bundles.update(reply["bundles"])
            if not reply["workloads"]:
                return records
            records += [WorkloadRecord(**row) for row in reply["workloads"]]

    def bundles(self, names: Sequence[str]) -> Mapping[str, list[str]]:
        """Return by which bundles these are predicted, as of the last listing."""
        return {name: self._bundles[name] for name in names if name in self._bundles}

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return one's own workload of that name, else the shared one, else None."""
        row = ask_users(self._path, "workload", name=name).get("workload")
        return None if row is None else WorkloadRecord(**row)

    def forecasts(self, name: str) -> list[ForecastRecord]:
        """Return the newest forecast of a workload."""
        reply = ask_users(self._path, "workload", name=name)
        return [ForecastRecord(**row) for row in reply.get("forecasts", ())]

    def fingerprints(self, name: str) -> list[FingerprintRecord]:
        """Return the scripts attached to a workload that place one's jobs."""
        reply = ask_users(self._path, "workload", name=name)
        return [FingerprintRecord(**row) for row in reply.get("scripts", ())]

    def remove_workload(self, name: str) -> bool:
        """Remove one's own; False: there was none."""
        return bool(ask_users(self._path, "remove", name=name)["removed"])

    def refresh(self, names: Sequence[str]) -> list[str]:
        """Predict one's own again; their names."""
        return list(ask_users(self._path, "refresh", names=list(names))["refreshed"])

    def share(self, name: str, alias: str | None) -> str | None:
        """Share a workload: the name that all users have it by now; None: an admin has to approve
        it."""
        shared_name: str | None = ask_users(self._path, "share", name=name, alias=alias).get(
            "shared"
        )
        return shared_name


class RemoteDecisions:
    """What was decided for one's own jobs."""

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
        """Return the newest first, those older than ``before``; ``user`` is for admins."""
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
    """What became of one's own jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of_decisions(self, decisions: Sequence[str]) -> dict[str, list[OutcomeRecord]]:
        """Return the outcomes by decision."""
        by_decision: dict[str, list[OutcomeRecord]] = {}
        for row in ask_users(self._path, "outcomes", decisions=list(decisions))["outcomes"]:
            by_decision.setdefault(row["decision"], []).append(OutcomeRecord(**row))
        return by_decision

    def of_decision(self, decision: str) -> list[OutcomeRecord]:
        """Return the outcomes of one decision."""
        return self.of_decisions([decision]).get(decision, [])

    def of_job(self, job: str) -> OutcomeRecord | None:
        """Return the outcome of one job, or None."""
        rows = ask_users(self._path, "outcomes", job=job)["outcomes"]
        return OutcomeRecord(**rows[0]) if rows else None
