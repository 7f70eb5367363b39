"""What a configuration file asks for: ``amm``, ``train``, ``test``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.published.relative_networks.attention import Attention
from lab.published.xamm import bundle
from lab.published.xamm.benchmarks import Benchmarks
from lab.published.xamm.choices import Machines
from lab.published.xamm.config import Step, XammConfig
from lab.published.xamm.family import XammFamily, fit
from lab.published.xamm.machine_tables import Runs, read_benchmarks, read_runs
from lab.published.xamm.machines import machine_labels
from lab.published.xamm.samples import samples_of_runs, times
from lab.published.xamm.two_models import XammManifest, XammModel, load

MODEL, AMM, PREDICTIONS = "model", "amm.json", "predictions.csv"


@dataclass(frozen=True, slots=True)
class Tested:
    """Of one target, where the test data hold its times too."""

    target: str
    predictions: int
    with_machines: bool
    mape: dict[str, float]
    """Application -> mean ``|predicted / measured - 1|`` of the runtime ratio; {}: no times."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was made."""

    trained: XammManifest | None
    machines: tuple[str, ...]
    """With an AMM in ``amm.json``."""
    tested: tuple[Tested, ...]
    written: tuple[Path, ...]


def run(config: XammConfig, base: Path, command: str) -> Done:
    """Do the steps; paths are relative to ``base``. Trains where no model is given.

    Raises DocumentError or UsageError for data that cannot be used; nothing is half-written.
    """
    out = base / config.out
    benchmarks = (
        None if config.machine_data is None else read_benchmarks(base / config.machine_data)
    )
    trained, written = None, []
    if config.model is None or Step.TRAIN in config.run:
        trained = _train(config, base, out / MODEL, benchmarks, command)
        written.append(out / MODEL)
    model = load(out / MODEL if trained is not None else base / str(config.model))
    machines = {} if benchmarks is None else _machines(model, benchmarks)
    if Step.AMM in config.run:
        write_text(
            out / AMM, json.dumps({n: list(v) for n, v in machines.items()}, indent=1) + "\n"
        )
        written.append(out / AMM)
    tested: tuple[Tested, ...] = ()
    if Step.TEST in config.run:
        tested, text = _test(config, base, model, machines)
        write_text(out / PREDICTIONS, text)
        written.append(out / PREDICTIONS)
    return Done(trained, tuple(machines), tested, tuple(written))


def _train(
    config: XammConfig, base: Path, folder: Path, benchmarks: Benchmarks | None, command: str
) -> XammManifest:
    runs = read_runs(base / str(config.app_train_data))
    samples = samples_of_runs(runs)
    labels = machine_labels(runs)
    _check_machines(config, benchmarks, labels)
    attention = Attention(epochs=config.epochs)
    fitted = fit(samples, benchmarks, labels, config.choices, config.seed, attention=attention)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return bundle.write(
        folder,
        fitted,
        samples,
        benchmarks,
        counters=runs.counters,
        applications=len(set(runs.applications)),
        seed=config.seed,
        command=command,
    )


def training_rows(config: XammConfig, base: Path) -> tuple[Rows, XammFamily]:
    """The runs to train on as rows, as seen from ``source_machine``, and the way through xAMM.

    Raises DocumentError, UsageError: no run on the source, benchmark data of other machines.
    """
    runs = read_runs(base / str(config.app_train_data))
    keys, machines, table = times(runs)
    source, file = str(config.source_machine), config.app_train_data
    if source not in machines:
        raise UsageError(f"{file} has no run on {source}", hint="name one of them: source_machine")
    there = {
        (a, c): i
        for i, (a, c, m) in enumerate(
            zip(runs.applications, runs.configurations, runs.machines, strict=True)
        )
        if m == source
    }
    wanted = [i for i, key in enumerate(keys) if key in there]
    names = [keys[i] for i in wanted]
    benchmarks = None
    if config.machine_data is not None:
        benchmarks = read_benchmarks(base / config.machine_data)
        _check_machines(config, benchmarks, machine_labels(runs))
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
        sizes=tuple(configuration for _, configuration in names),
    )
    attention = Attention(epochs=config.epochs)
    if benchmarks is None:
        by_name = replace(config.choices, machines=Machines.NAMES)
        return rows, XammFamily(by_name, attention=attention)
    return rows, XammFamily(config.choices, lambda _: benchmarks, attention)


def _check_machines(
    config: XammConfig, benchmarks: Benchmarks | None, labels: Mapping[str, Floats]
) -> None:
    if benchmarks is not None and not set(benchmarks.complete()) & set(labels):
        raise UsageError(
            f"{config.machine_data} has none of the machines of {config.app_train_data}",
            hint="give benchmark data of those machines, or leave machine_data out",
        )


def _machines(model: XammModel, benchmarks: Benchmarks) -> dict[str, Floats]:
    wanted = model.manifest.benchmarks
    if not wanted:
        return {}
    if absent := set(wanted) - set(benchmarks.features):
        raise UsageError(
            f"the benchmark data lack {min(absent)!r}, which the model was trained with",
            hint="run the same benchmarks, or train with these",
        )
    columns = [benchmarks.features.index(name) for name in wanted]
    return {
        name: model.machine(benchmarks.samples[name][:, columns]) for name in benchmarks.complete()
    }


def _test(
    config: XammConfig, base: Path, model: XammModel, machines: dict[str, Floats]
) -> tuple[tuple[Tested, ...], str]:
    path = base / str(config.app_test_data)
    runs = read_runs(path)
    if absent := [name for name in model.manifest.counters if name not in runs.counters]:
        raise UsageError(f"{path} lacks the counter {absent[0]!r} that the model was trained with")
    source = str(config.source_machine)
    here = [i for i, name in enumerate(runs.machines) if name == source]
    if not here:
        raise UsageError(f"{path} has no run on {source}", hint="profile the workloads there")
    columns = [runs.counters.index(name) for name in model.manifest.counters]
    counters, seconds = runs.values[here][:, columns], runs.seconds[here]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["application", "config", "source", "target", "speedup", "runtime_ratio", "runtime_s",
         "with_amm", "measured_runtime_s"]
    )  # fmt: skip
    tested = []
    for target in config.target_machines:
        answers = model.answers(counters, seconds, source, target, machines)
        measured = [_measured(runs, i, target) for i in here]
        errors: dict[str, list[float]] = {}
        for i, answer, real in zip(here, answers, measured, strict=True):
            application, taken = runs.applications[i], float(runs.seconds[i])
            guess = taken / answer.speedup
            writer.writerow(
                [application, runs.configurations[i], source, target, f"{answer.speedup:.6g}",
                 f"{1 / answer.speedup:.6g}", f"{guess:.6g}",
                 "yes" if answer.with_machines else "no", "" if real is None else f"{real:.6g}"]
            )  # fmt: skip
            if real is not None:
                errors.setdefault(application, []).append(abs(guess / real - 1))
        mape = {name: float(np.mean(values)) for name, values in sorted(errors.items())}
        tested.append(Tested(target, len(answers), answers[0].with_machines, mape))
    return tuple(tested), stream.getvalue()


def _measured(runs: Runs, i: int, target: str) -> float | None:
    wanted = runs.applications[i], runs.configurations[i], target
    keys = zip(runs.applications, runs.configurations, runs.machines, strict=True)
    return next((float(runs.seconds[j]) for j, key in enumerate(keys) if key == wanted), None)
