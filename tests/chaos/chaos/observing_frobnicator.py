"""Berth's frobnicator, and what writes down each jobspec before and after: loaded by Flux by path.

The file ``calls.jsonl`` lies beside the kill switch.
"""

import importlib.util
import json
import os
import time
from pathlib import Path

FILTER = Path(__file__).parents[3] / "plugin" / "flux" / "frobnicator.py"
_spec = importlib.util.spec_from_file_location("berth_frobnicator", FILTER)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


def looked_at(spec):
    """Plain fields of a jobspec, and the stamp; the message for the user is left out."""
    attributes = json.loads(json.dumps(spec["attributes"]))
    user = attributes.get("user") or {}
    notes = user.get("berth") or {}
    stamp = notes.pop("decision", None)
    notes.pop("message", None)
    if not notes:
        user.pop("berth", None)
    system = attributes["system"]
    fields = {
        "queue": system.get("queue"),
        "duration": system.get("duration"),
        "resources": json.dumps(spec["resources"]),
        "tasks": json.dumps(spec["tasks"]),
        "constraints": json.dumps(system.get("constraints")),
        "user": json.dumps(user),
    }
    return fields, stamp


class Frobnicator(_module.Frobnicator):
    """Observed."""

    def configure(self, args, config):
        """As Berth's, and where to write."""
        super().configure(args, config)
        switch = config["ingest"]["frobnicator"]["berth"]["kill_switch"]
        self._calls = os.open(
            str(Path(switch).with_name("calls.jsonl")), os.O_WRONLY | os.O_APPEND | os.O_CREAT
        )

    def frob(self, jobspec, userid, urgency, flags):
        before, _ = looked_at(jobspec.jobspec)
        name = jobspec.jobspec["attributes"]["system"]["job"]["name"]
        at_s, begun = time.time(), time.monotonic()
        code = 1
        try:
            super().frob(jobspec, userid, urgency, flags)
            code = 0
        finally:
            took_s = time.monotonic() - begun
            after, stamp = looked_at(jobspec.jobspec)
            line = {
                "name": name, "at_s": at_s, "took_s": took_s, "code": code, "before": before,
                "after": after, "stamp": stamp,
            }  # fmt: skip
            os.write(self._calls, (json.dumps(line) + "\n").encode())
