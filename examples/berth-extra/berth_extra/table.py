"""A workload whose times on each platform stand in a table, and the family that forecasts it."""

from __future__ import annotations

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Name, Positive, RunsOn
from berth.predictor.core.family import Bundles, Explanation, FamilyEntry, FamilyForecast, Question
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.workload import WHOLE_JOB, Workload, WorkloadKind, digest_of

SCHEMA = "berth-extra.table/1"
LOG_WIDTH = 0.1
"""Half width of the 90 % interval, as a logarithm: the table's rows are taken as measured."""


class TableWorkload(Document):
    """Seconds of one job by platform, as somebody has measured them."""

    schema_: str = Field(default=SCHEMA, alias="schema")
    name: Name
    seconds: dict[Name, Positive] = Field(min_length=1)
    memory_bytes: Positive | None = None
    """Memory that the job needs: of the GPU at platforms that are GPUs, else of the host."""
    runs_on: RunsOn = RunsOn()


def describe(document: TableWorkload) -> Workload:
    """Whole jobs."""
    return Workload(
        "table", document.name, digest_of(document), document.runs_on, WHOLE_JOB, document
    )


class TableFamily:
    """Answers with the table's rows; of other platforms it knows nothing."""

    name = "table"

    def accepts(self, workload: Workload) -> bool:
        """Tables."""
        return isinstance(workload.document, TableWorkload)

    def forecast(self, question: Question) -> FamilyForecast:
        """One point for each platform of the table. Raises UsageError where it has none of them."""
        table = _table(question)
        there = {n: p for n, p in question.platforms.items() if n in table.seconds}
        if not there:
            rows = ", ".join(table.seconds)
            raise UsageError(f"the table of {table.name} has no platform of this site: {rows}")
        curves = {name: _curve(table, platform) for name, platform in there.items()}
        return FamilyForecast("", curves)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Where the number stands."""
        return Explanation(f"The table of {_table(question).name} has a row for {platform.name}.")


def _table(question: Question) -> TableWorkload:
    document = question.workload.document
    assert isinstance(document, TableWorkload)  # noqa: S101 - ``accepts`` was asked
    return document


def _curve(table: TableWorkload, platform: Platform) -> PredictionCurve:
    need = None
    if table.memory_bytes is not None:
        need = Interval(table.memory_bytes, table.memory_bytes, table.memory_bytes)
    time = around(table.seconds[platform.name], LOG_WIDTH)
    point = Prediction(
        workload=table.name,
        platform=platform.name,
        cores=0 if platform.is_gpu else max(1, table.runs_on.threads),
        gpus=max(1, table.runs_on.gpus) if platform.is_gpu else 0,
        basis=Basis.MEASURED,
        speedup=Interval(1.0, 1.0, 1.0),
        runtime_s=time,
        memory=MemoryUse(gpu_bytes=need) if platform.is_gpu else MemoryUse(host_bytes=need),
        energy_j=time.scaled(platform.power_w) if platform.power_w else None,
        bound=Bound.UNKNOWN,
    )
    return PredictionCurve((point,))


def _load(_: Bundles) -> TableFamily:
    return TableFamily()


KIND = WorkloadKind("table", TableWorkload, describe)
FAMILY = FamilyEntry("table", ("table",), _load)
