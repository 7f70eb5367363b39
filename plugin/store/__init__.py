"""The store: workloads, forecasts, decisions and outcomes that outlive a process.

SQLite (WAL) by default, PostgreSQL by URL. Nothing here runs in the submit path: the daemon
reads it in a background thread and writes to it from another. ``docs/store.md`` describes it.
"""

from berth.plugin.store.records import (
    DecisionRecord,
    ForecastRecord,
    PlacedRun,
    WorkloadRecord,
)
from berth.plugin.store.store import Store

__all__ = ["DecisionRecord", "ForecastRecord", "PlacedRun", "Store", "WorkloadRecord"]
