"""What each command prints with ``--json``, as types: ``make schemas`` writes ``docs/schemas/``.

What comes from a table has the types of the table's columns. A type is a class, a mapping of keys
to types (an object with these keys), a list with one type (an array), or ``Either`` of several. A
key that ends in ``?`` may be absent, the key ``*`` stands for any further key. A value of a table's
column may be null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from berth.pilot.dl.document import ModelRun
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.history.advice import Advice
from berth.plugin.learning.learner import Learnt
from berth.plugin.learning.shown import Moved
from berth.plugin.outcomes.accuracy import Accuracy
from berth.plugin.outcomes.measured_gain import MeasuredGain
from berth.plugin.replay.queue_replay import Start
from berth.plugin.report import (
    of_calibration,
    of_decision,
    of_forecast,
    of_installation,
    of_language_model,
    of_model,
    of_outcomes,
    of_placement,
    of_platform,
    of_program,
    of_replay,
    of_slices,
    of_store,
    of_training_step,
    of_tune,
)
from berth.plugin.report.known_job import KnownJob
from berth.plugin.report.parts import Column
from berth.plugin.right_sizing.slices import SliceAdvice
from berth.plugin.scheduler.jobs import Replacing
from berth.plugin.scheduler.ruled_out import RuledOut
from berth.plugin.store.records import DecisionRecord, PlacedRun
from berth.plugin.users.collecting import CollectedFile
from berth.policies.mig.documents import FleetDocument, PlanDocument
from berth.policies.objectives.protocol import ScoreTerm
from berth.policies.replay.metrics import Metrics
from berth.policies.replay.replayed import ReplayCounts
from berth.policies.values import Decision, Ranked
from berth.predictor.core.prediction import Interval
from berth.predictor.graphs.summary import KindRow, OperatorRow


@dataclass(frozen=True, slots=True)
class Either:
    """A value of one of several types."""

    types: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Same:
    """What another command prints, too: the name of its schema."""

    name: str


def maybe(kind: Any) -> Any:
    """Return the type of such a value or null."""
    return Either((kind, None))


def row(columns: Sequence[Column[Any]], *, may_lack: Sequence[str] = ()) -> dict[str, Any]:
    """Return the type of a table's record: an object with a key for each column."""
    return {
        column.key + "?" * (column.key in may_lack): maybe(column.json_type) for column in columns
    }


def fields(record: type, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the type of a record as an object with a key for each of its fields."""
    hints = get_type_hints(record, localns={"Interval": Interval, "Start": Start, "Floats": list})
    return {name: kind for name, kind in hints.items() if name not in without}


SOURCES = [{"source": str, "weight": float, "log_width": float, "situation": str}]
COUNTED = dict[str, int]
KNOWN_JOB = fields(KnownJob) | {"facts": dict[str, list[str]]}
DECIDED = (
    fields(DecisionRecord)
    | row(of_decision.DECISIONS)
    | {
        "request": dict[str, Any],
        "edits": dict[str, Any],
        "ranked": [row(of_decision.CANDIDATES) | {"*": Any}],
    }
)
ENDED = fields(PlacedRun)
PREVIEW = {
    "gpu": str, "index": int, "name": str,
    "destroy": list[str], "create": list[str], "keep": list[str], "busy": list[str],
}  # fmt: skip
PREDICTION = row(of_forecast.PREDICTIONS) | {
    "nodes": int, "cores": int, "gpus": int, "sources": SOURCES,
}  # fmt: skip
FORECAST = {
    "workload": str, "kind": str, "unit": str, "bundle": str, "families": list[str],
    "reference": str | None, "predictions": [PREDICTION],
}  # fmt: skip
PROGRAM = {key: kind for key, kind in FORECAST.items() if key != "kind"} | {"size": float}
UNPLACED = {"unknown-nodes": int, "two-kinds": int, "no-nodes": int}
EXPLAINED = {
    "explanations?": [Either((
        {"platform": str, "family": str, "summary": str},
        {
            "platform": str, "sentence": str, "bound": str, "limit": str, "limit_share": float,
        },
    ))],
}  # fmt: skip
GEOMETRY = {
    "gpu": str, "compute_slices": int, "memory_slices": int, "aliases": list[str],
    "memory_basis": str, "source": str, "profiles": [row(of_slices.PROFILES)],
}  # fmt: skip
PORTS = [{"name": str, "type": str, "shape": list[int]}]
SITE_CANDIDATE = {
    "name": str, "platform": str, "nodes": int, "queue": str, "check": list[str],
}  # fmt: skip

ANSWERS: Mapping[str, Any] = {
    "jobs-advise": [
        fields(Advice, without=("jobs",)) | {"slice": SliceAdvice | None, "sentence": str}
    ],
    "jobs-decisions": [DECIDED],
    "jobs-decisions-id": DECIDED,
    "jobs-gain": {"measured": list[MeasuredGain], "grounds": dict[str, int]},
    "jobs-history-import": {
        "jobs": int, "new": int, "repeated": int, "not_ended": int, "broken": int,
        "examples": list[str], "workloads": int | None, "runs": int | None,
        "unplaced": maybe(UNPLACED),
    },
    "jobs-history-refresh": {"workloads": int, "runs": int, "unplaced": UNPLACED},
    "jobs-learn": Learnt,
    "jobs-outcomes": [fields(Accuracy) | row(of_outcomes.ACCURACY)],
    "jobs-outcomes-jobs": [ENDED | row(of_outcomes.JOBS)],
    "jobs-usage-import": {
        "jobs": int, "unknown_jobs": int, "nothing_recorded": int, "left_out": int, "broken": int,
        "examples": list[str], "disagreements": list[str],
    },
    "jobs-usage-show": {
        "job": str, "values": [{"name": str, "value": float, "source": str, "counts": bool}],
        "lacks": dict[str, str],
    },
    "jobs-waits": {
        "as_of_s": float,
        "tables": dict[str, Any],
    },
    "mig-apply": {
        "outcome": str, "id?": str | None, "resumed?": str | None, "gpus": [PREVIEW],
    },
    "mig-assert": {"holds": bool, "gpus": [PREVIEW]},
    "mig-auto": {"recut": bool, "reason": str, "gpus?": [PREVIEW], "outcome?": str},
    "mig-plan": PlanDocument,
    "mig-recommend": {
        "workload": str, "gpu": str, "unit": str, "units": float | None, "aim": str,
        "smallest": str | None, "best": str | None, "reason": str,
        "gpu_memory_bytes": Interval | None,
        "slices": [
            {"job_s?": Interval | None}
            | row(of_slices.choice_columns("job", None))
            | {
                "part_of_gpu": float, "need_bytes": Interval | None, "fits": bool,
                "launch_share": float | None, "method": str, "abstained": str | None,
            }
        ],
    },
    "mig-show": Either((GEOMETRY, [row(of_slices.MODELS)], FleetDocument)),
    "pilot-bench": Platform,
    "pilot-dl": list[ModelRun],
    "pilot-import": Same("pilot-run"),
    "pilot-run": Profile,
    "pilot-submit": {
        "profile": str, "pilot_job": str, "pilot_jobs": list[str], "job": str | None,
    },
    "place": fields(Decision) | {
        "schema": str,
        "ranked": [
            fields(Ranked, without=("memory", "makespan"))
            | {
                "ratio_log_width": float | None,
                **row(of_placement.candidate_columns("", ""), may_lack=("uses",)),
            }
        ],
        "site": str, "currency": str, "workload": str | None, "kind": str, "unit": str,
        "families": list[str], "sources": {"*": SOURCES}, "notes": list[str],
        "terms": {"*": [ScoreTerm]}, "command": list[str] | None, "job_id": str | None,
    },
    "place-replace": [Replacing],
    "predict-language-model": {
        "model": str, "family": str, "parameters": float, "active_parameters": float,
        "bundle": str, "framework": str, "batch": int, "input_tokens": int, "output_tokens": int,
        "weight_bits": float, "kv_bits": float, "gpus": int, "tokens": float | None,
        "answer": list[str],
        "predictions": [
            row(of_language_model.SERVING)
            | row(of_language_model.RULES_OF)
            | {
                "latency_basis": str, "gpu_memory_least_bytes": float,
                "resident_sequences": int, "from": str, "abstained": str | None,
                "ttft_abstained": str | None, "tpot_abstained": str | None, "sources": SOURCES,
            }
        ],
        "unverified": list[str],
    },
    "predict-model": {
        "model": str, "graph": str, "batch": int, "flops": float, "parameters": int,
        "unknown_operators": COUNTED,
        "predictions": [
            row(of_model.MODEL)
            | {
                "source": str, "note": str, "precision": str, "memory_counted_bytes": float,
                "memory_framework_bytes": Interval | float, "memory_of": str,
                "memory_training_bytes": Interval | None, "energy_idle_share": float | None,
                "sources": SOURCES,
            }
        ],
        "mig": dict[str, str | None], "unverified": list[str], "unit": str, "amount": float | None,
        "rooflines?": [
            {
                "platform": str, "time_shares": dict[str, float],
                "operators": [
                    row(of_model.OPERATORS) | {"flops": float, "moved_bytes": float}
                ],
            }
        ],
    },
    "predict-program": EXPLAINED | PROGRAM,
    "predict-relative": {
        "workload": str, "reference": str, "bundle": str, "missing_counters": list[str],
        "predictions": [
            row(of_program.RELATIVE) | {"abstained": str | None, "sources?": SOURCES}
        ],
    },
    "predict-training": {
        "model": str, "graph": str, "mode": str, "batch": int, "copies": int, "parameters": int,
        "unknown_operators": COUNTED,
        "predictions": [
            row(of_training_step.STEPS)
            | {"abstained": str | None, "learnt_on": str, "sources": SOURCES}
        ],
        "unit": str, "amount": float | None,
    },
    "replay": {
        "trace": str, "broken": int, "examples": list[str], "not_ended": int, "changed": COUNTED,
        "known_elsewhere": COUNTED,
        "replays": [
            fields(Metrics, without=("draws",))
            | {"name": str, "failure": str | None, "counts": ReplayCounts}
            | {"intervals": dict[str, list[float]]}
            | {"users": [row(of_replay.USERS) | {"loses": bool}]}
        ],
    },
    "replay-live": {
        "as_of_s": float, "running": int, "waiting": int, "predicted": int, "left_out": COUNTED,
        "replays": [
            {
                "name": str, "draws": int, "figures": dict[str, list[float]],
                "starts_s": dict[str, list[float | None]],
            }
        ],
    },
    "replay-tune": {
        "schema": str,
        "trials": {
            "done": int, "stopped_early": int, "failed": int, "running": int, "surplus": int,
        },
        "notes": list[str], "recommended": bool, "reason": str, "values": dict[str, Any],
        "without_effect": list[str],
        "differences": [
            row(of_tune.differences_columns("")) | {"low": float | None, "high": float | None}
        ],
        "front": [{"trial": int, "values": dict[str, Any], "scores": list[float]}],
        "report": str,
    },
    "serve-status": {
        "v": int, "action": str, "version": str, "mode": str, "uptime_s": float,
        "counts": COUNTED, "codes": COUNTED, "decisions": [list[str | int]],
        "latency_buckets_us": {"bounds": list[float], "counts": list[int], "sum": float},
        "latency_us": {"p50": float | None, "p99": float | None, "max": float | None},
        "breakers": {"*": {
            "openings": int, "undecided": int, "lasted_s": float | None,
            "reported_s": float | None,
        }},
        "state_age_s": float | None, "waits_age_s": float | None, "candidates": int,
        "workloads": int, "forecasts": int, "learnt": int, "store_revision": int,
        "places": {"*": {
            "platform": str, "slices": bool, "up": bool, "idle_cores": int | None,
            "idle_gpus": int | None, "pending_jobs": int | None, "expects_waits": bool,
        }},
        "site": str, "connections": COUNTED,
        "recorder": {
            "stored": int, "spooled": int, "dropped": int, "queued": int, "unjournalled": int,
            "problem": str | None,
        },
        "problems": dict[str, str],
    },
    "site-calibrate": {
        "plan": list[str], "unfinished": list[str],
        "result": maybe({
            "bundle": str, "site_file": str, "platforms": [row(of_calibration.PLATFORMS)],
            "acts_on": list[str], "remarks": list[str], "forecasts": str,
        }),
    },
    "site-doctor": [row(of_installation.FINDINGS)],
    "site-init": {
        "file": str | None, "mode": str, "candidates": [SITE_CANDIDATE],
        "platforms_to_calibrate": list[str], "left_out": [{"queue": str, "reason": str}],
        "scheduler_config": list[str], "text?": str,
    },
    "site-platform-add": {"platform": str, "folder": str, "note": str},
    "site-platform-list": [Either((
        row(of_platform.PLATFORMS), row(of_platform.DEVICES), {"name": str, "*": Any},
    ))],
    "site-platform-show": Same("pilot-bench"),
    "site-slurm-putback-clear": {"forgotten": int},
    "site-slurm-putback-list": [RuledOut],
    "site-slurm-putback-run": {
        "put_back": [{"job": str, "user": str, "reason": str, "candidate": str}],
        "memory": list[str],
    },
    "site-store-prune": {"store": str, "deleted": COUNTED},
    "site-store-upgrade": {"store": str, "before": str | None, "now": str},
    "site-support": {"file": str, "bytes": COUNTED, "missing": dict[str, str]},
    "train": {
        "bundle": str, "rows": int, "platform": str, "folder": str, "*": Any,
    },
    "train-bundle-show": {
        "schema": str, "id": str, "created": str, "command": str, "berth_version": str,
        "figures": dict[str, float], "files": dict[str, str], "*": Any,
    },
    "train-bundle-verify": {"bundle": str, "whole": bool},
    "ui-report": {
        "schema": str, "title": str, "lead": str,
        "parts": [
            {
                "title": str, "problem": str | None, "lines": list[str], "facts": dict[str, str],
                "pictures": list[str], "verbatim": str,
                "tables": [
                    {
                        "caption": str, "columns": [{"key": str, "title": str, "unit": str}],
                        "rows": list[dict[str, Any]], "doubtful": list[bool],
                    }
                ],
            }
        ],
    },
    "why": Either((KNOWN_JOB, [KNOWN_JOB])),
    "workload-add": {
        "workload": str, "kind": str, "unit": str, "store": str, "bundle": str,
        "families": list[str], "platforms": list[str], "fingerprint": str | None,
    },
    "workload-collect": {"files": [CollectedFile]},
    "workload-list": [
        row(of_store.WORKLOADS)
        | {"unit": str, "digest": str, "share_asked": bool, "bundles": list[str]}
    ],
    "workload-model": {
        "digest": str, "producer": str, "opset": int, "batch": int, "inputs": PORTS,
        "outputs": PORTS, "nodes": int, "edges": int, "kinds": int, "folded_operators": COUNTED,
        "parameters": int, "stored_elements": int, "stored_bytes": int, "macs": int, "flops": int,
        "moved_bytes": int, "activation_bytes": int, "peak_activation_bytes": int,
        "intensity": float,
        "operators": [fields(OperatorRow) | {"intensity": float | None}],
        "most_computing": [KindRow], "most_moving_for_little": [KindRow],
        "repeated_blocks": [{"first": int, "length": int, "count": int}],
        "unknown_operators": COUNTED, "assumed_shapes": int,
    },
    "workload-refresh": {"refreshed": list[str]},
    "workload-remove": {"removed": list[str], "missing": list[str]},
    "workload-share": {"workload": str, "shared_as": str | None},
    "workload-show": {
        "name": str, "kind": str,
        "amount": {"count": float | None, "unit": str, "steps_per_epoch": float | None},
        "digest": str, "owner": str, "created_s": float, "document": dict[str, Any],
        "forecast": maybe(FORECAST), "learnt": [Moved],
        "scripts": [{"digest": str, "size": float | None}],
    },
}  # fmt: skip
"""The type of each answer, by the name of its schema: the command's words joined by ``-``."""
OF_COMMANDS: Mapping[str, Sequence[str]] = {
    "jobs decisions": ("jobs-decisions", "jobs-decisions-id"),
    "jobs outcomes": ("jobs-outcomes", "jobs-outcomes-jobs"),
    "predict": tuple(name for name in ANSWERS if name.startswith("predict-")),
    "replay": ("replay", "replay-live"),
    "serve": ("serve-status",),
    **{f"ui report {what}": ("ui-report",) for what in ("job", "workload", "site", "mig")},
}
"""The schemas of commands that print more than one kind of answer, or have another's schema."""
