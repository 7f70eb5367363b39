"""xAMM from one configuration file (TOML), or beside other families on the AIWC data set.

The file is the paper's listing 1 in our words; paths are relative to it. Its runs are trained on,
its test runs predicted on every target, and the table says how far off that was.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document, read_toml, write_text
from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.published.xamm.benchmarks import Benchmarks
from lab.published.xamm.embedding import Attention, Embedding
from lab.published.xamm.family import FAMILIES, XammFamily, fit
from lab.published.xamm.machine_models import machine_labels
from lab.published.xamm.samples import (
    Runs,
    Samples,
    read_benchmarks,
    read_runs,
    samples_of_runs,
    times,
)
from lab.relative.experiment import evaluate_on_aiwc, train_on_aiwc
from lab.relative.families import COST_MODEL
from lab.relative.measurements import SiteInput
from lab.relative.train import train_bundle

PREDICTIONS, AMM = "predictions.csv", "amm.json"
_COLUMNS = (
    "application", "config", "source", "target", "speedup", "runtime_ratio", "runtime_s",
    "with_amm", "measured_runtime_s",
)  # fmt: skip


class XammConfig(Document):
    """The configuration file."""

    app_train_data: str = Field(min_length=1)
    app_test_data: str = Field(min_length=1)
    source_machine: str = Field(min_length=1)
    """Where the workloads of the test were profiled."""
    target_machines: tuple[str, ...] = Field(min_length=1)
    machine_data: str | None = None
    """CSV of benchmark runs, a platform file, or a folder of them; absent: without AMMs."""
    out: str = "xamm"
    """Folder for what is made: ``amm.json``, ``predictions.csv``."""
    embedding: Embedding = Embedding.ATTENTION
    epochs: int = Field(default=100, ge=1)
    """Of attention; TabNet's default."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Tested:
    """Predictions of one target."""

    target: str
    predictions: int
    with_machines: bool
    """False: by the model without AMMs, which cannot tell targets apart."""
    mape: dict[str, float]
    """Application -> mean ``|predicted / measured - 1|`` of the time; {}: no times are known."""


def train(options: Options) -> str:
    """Write a bundle that ``berth predict`` serves: of the configuration's runs, or of AIWC's."""
    if options.config is None:
        return train_on_aiwc(options, XammFamily())
    config = read_toml(options.config, XammConfig)
    rows, family = training_rows(config, options.config.parent)
    site = SiteInput(rows, config.app_train_data, {}, {})
    return train_bundle(site, options.bundle, config.seed, family)


def evaluate(options: Options) -> Report:
    """Report what the configuration asks for, or xAMM beside other families on AIWC."""
    if options.config is None:
        return evaluate_on_aiwc(options, (COST_MODEL, *FAMILIES))
    config, base = read_toml(options.config, XammConfig), options.config.parent
    tested, written = run(config, base)
    rows = [
        (
            one.target, str(one.predictions), "yes" if one.with_machines else "no",
            f"{np.mean(list(one.mape.values())):.1%}" if one.mape else "no times",
        )
        for one in tested
    ]  # fmt: skip
    header = ("target", "predictions", "with AMM", "MAPE (applications averaged)")
    return Report(
        "xAMM by one configuration file",
        tuple(f"wrote {path}" for path in written),
        (Section("Tested", header, rows),),
        {"tested": tested, "written": [str(path) for path in written]},
    )


def run(config: XammConfig, base: Path) -> tuple[tuple[Tested, ...], tuple[Path, ...]]:
    """Train and test; return the figures of each target and the files that were written.

    Raises DocumentError or UsageError for data that cannot be used; nothing is half-written.
    """
    runs, benchmarks = _training_data(config, base)
    test = read_runs(base / config.app_test_data)
    asked = _samples(config, runs, test)
    fitted = fit(
        samples_of_runs(runs), benchmarks, machine_labels(runs), config.embedding, config.seed,
        attention=Attention(epochs=config.epochs),
    )  # fmt: skip
    log_speedup = fitted.log_speedup(asked)
    tested, lines = [], []
    for column, target in enumerate(config.target_machines):
        known = {config.source_machine, target} <= fitted.vectors.keys()
        made = list(_predicted(test, asked, target, log_speedup[:, column], known=known))
        lines += made
        tested.append(Tested(target, len(made), known, _mape(made)))
    written = (base / config.out / PREDICTIONS, base / config.out / AMM)
    write_text(written[0], _as_csv(lines))
    machines = {name: list(vector) for name, vector in fitted.vectors.items()}
    write_text(written[1], json.dumps(machines, indent=1) + "\n")
    return tuple(tested), written


def training_rows(config: XammConfig, base: Path) -> tuple[Rows, XammFamily]:
    """Return the runs to train on as seen from ``source_machine``, and the way through xAMM.

    Raises DocumentError, UsageError: no run on the source, benchmark data of other machines.
    """
    runs, benchmarks = _training_data(config, base)
    keys, machines, table = times(runs)
    source = config.source_machine
    if source not in machines:
        raise UsageError(
            f"{config.app_train_data} has no run on {source}",
            hint="name one of them: source_machine",
        )
    there = {
        (application, size): i
        for i, (application, size, machine) in enumerate(
            zip(runs.applications, runs.configurations, runs.machines, strict=True)
        )
        if machine == source
    }
    wanted = [i for i, key in enumerate(keys) if key in there]
    names = [keys[i] for i in wanted]
    if benchmarks is not None:
        # A machine that has benchmark data and no runs is predicted, too.
        others = tuple(name for name in benchmarks.complete() if name not in machines)
        table = np.hstack([table, np.full((len(table), len(others)), np.nan)])
        machines = (*machines, *others)
    rows = Rows(
        counters=runs.counters,
        values=runs.values[[there[name] for name in names]],
        platforms=machines,
        reference=source,
        log_seconds=table[wanted],
        applications=tuple(application for application, _ in names),
        kernels=tuple(application for application, _ in names),
        sizes=tuple(size for _, size in names),
    )
    return rows, XammFamily(config.embedding, lambda _: benchmarks, Attention(epochs=config.epochs))


def _training_data(config: XammConfig, base: Path) -> tuple[Runs, Benchmarks | None]:
    """Read runs and benchmark data. Raises UsageError where they have no machine in common."""
    runs = read_runs(base / config.app_train_data)
    if config.machine_data is None:
        return runs, None
    benchmarks = read_benchmarks(base / config.machine_data)
    if not set(benchmarks.complete()) & set(machine_labels(runs)):
        raise UsageError(
            f"{config.machine_data} has none of the machines of {config.app_train_data}",
            hint="give benchmark data of those machines, or leave machine_data out",
        )
    return runs, benchmarks


def _samples(config: XammConfig, runs: Runs, test: Runs) -> Samples:
    """Return the test's workloads as profiled on the source, with the counters of training."""
    file, source = config.app_test_data, config.source_machine
    if absent := [name for name in runs.counters if name not in test.counters]:
        raise UsageError(f"{file} lacks the counter {absent[0]!r} that the model is trained with")
    index = [i for i, machine in enumerate(test.machines) if machine == source]
    if not index:
        raise UsageError(f"{file} has no run on {source}", hint="profile the workloads there")
    values = test.values[index][:, [test.counters.index(name) for name in runs.counters]]
    return Samples(
        features=np.column_stack([np.log1p(values), np.log(test.seconds[index])]),
        sources=(source,) * len(index),
        targets=config.target_machines,
        log_speedup=np.full((len(index), len(config.target_machines)), np.nan),
        rows=tuple(index),
    )


def _predicted(
    test: Runs, asked: Samples, target: str, log_speedup: Floats, *, known: bool
) -> Iterator[dict[str, str]]:
    """Yield a line of ``predictions.csv`` for each workload on a target."""
    keys = zip(test.applications, test.configurations, test.machines, strict=True)
    seconds = dict(zip(keys, test.seconds.tolist(), strict=True))
    for i, speedup in zip(asked.rows, np.exp(log_speedup).tolist(), strict=True):
        measured = seconds.get((test.applications[i], test.configurations[i], target))
        cells = (
            test.applications[i], test.configurations[i], test.machines[i], target,
            f"{speedup:.6g}", f"{1 / speedup:.6g}", f"{test.seconds[i] / speedup:.6g}",
            "yes" if known else "no", "" if measured is None else f"{measured:.6g}",
        )  # fmt: skip
        yield dict(zip(_COLUMNS, cells, strict=True))


def _mape(lines: Iterable[Mapping[str, str]]) -> dict[str, float]:
    """Return the mean error by application of the lines that have a measured time."""
    errors: dict[str, list[float]] = {}
    for line in lines:
        if measured := line["measured_runtime_s"]:
            error = abs(float(line["runtime_s"]) / float(measured) - 1)
            errors.setdefault(line["application"], []).append(error)
    return {name: float(np.mean(values)) for name, values in sorted(errors.items())}


def _as_csv(lines: Iterable[Mapping[str, str]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()
