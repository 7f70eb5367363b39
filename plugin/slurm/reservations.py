"""Slurm's reservations, from ``scontrol -o show reservation``."""

from __future__ import annotations

from berth.plugin.scheduler import ReservationFacts
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import moment_s, records


def ask() -> tuple[ReservationFacts, ...]:
    """Those that are or will be. Raises SchedulerError and ToolMissing."""
    return read(commands.run(("scontrol", "-o", "show", "reservation"), utc=True))


def read(text: str) -> tuple[ReservationFacts, ...]:
    """Times are UTC. Reservations of parts of nodes, or of licences, are left out.

    Raises SchedulerError for what is no such list.
    """
    found = []
    for record in records(text, "ReservationName"):
        begin_s = moment_s(record.get("StartTime", ""), utc=True)
        end_s = moment_s(record.get("EndTime", ""), utc=True)
        nodes = record.get("Nodes", "")
        if begin_s is None or end_s is None or nodes in ("", "(null)"):
            continue
        if "PART_NODES" in record.get("Flags", "") or "FLEX" in record.get("Flags", ""):
            continue
        name = record["ReservationName"]
        found.append(ReservationFacts(name, frozenset(hostlist(nodes)), begin_s, end_s))
    return tuple(found)
