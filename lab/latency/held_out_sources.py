"""Predictions of held-out measurements by each source (method) of a model graph's time.

There are two kinds of situations. On a *known* device other models were measured; architectures or
families are held out by folds. On a *new* device all its rows are held out, and a third of the
architectures on all devices; ``k`` rows of one software stack, of the other architectures, are then
given as measured runs. On GPUs only rows without a compiler are predicted, which is the default.

The operator bundle is fitted to other data sets, so that all rows of timm are held out of it.
NeuSight's whole models are predicted by operators fitted on GPUs of other silicon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from berth.predictor.families.graph.latency.bundle import verify
from berth.predictor.families.graph.operators.predictor import operator_model
from berth.predictor.families.graph.sources import (
    IMAGES_IN_HALF,
    LANGUAGE_IN_FP32,
    MEASURED,
    NEAREST,
    NEW_CPU,
    OPERATORS,
    ROOFLINE,
    RUNS,
    TRANSFER,
    known_device,
    with_runs,
)
from berth.predictor.families.graph.transfer.bundle import load as load_transfer
from lab.ground.splits import Fold, folds_of
from lab.ground.table import Floats, Places, Strings, Table, whole
from lab.latency.samples import left_out, samples
from lab.latency.timm_devices import GPUS
from lab.latency.timm_runs import FAMILY, MODEL, Runs, runs
from lab.operators.silicon_held_out import without
from lab.operators.whole_models import image_seconds, language_models
from lab.transfer import transfer_methods as methods
from lab.transfer.platform_kernel import ARCHITECTURES, fit, learn
from lab.transfer.transfer_cases import Measured, timm_cases

SOURCES = (MEASURED, TRANSFER, NEAREST, OPERATORS, ROOFLINE)
"""The last one is the baseline: the roofline, scaled by how close known devices (or the runs on a
new device) come to it."""
SAMPLES = (0, *RUNS)
_MODEL_FOLDS = 3
KNOWN = {
    known_device(unlike=False): MODEL,
    known_device(unlike=True): replace(FAMILY, count=10),
}
"""The split of each situation on a known device."""
STEPS = 15 + 5 + 1
"""Number of calls of ``advance``: folds, new devices, whole models."""


@dataclass(frozen=True)
class SourceTimes(Table):
    """Held-out rows with the prediction of each source: log seconds per image; NaN: none."""

    split: Strings
    """The situation that was created by holding rows out."""
    situation: Strings
    """The situation as Berth would recognise it: on a known device by the model's difficulty."""
    device: Strings
    group: Strings
    """The device, architecture or family that was held out with this row."""
    log_seconds: Floats
    """Measured."""
    difficulty: Floats
    """Difficulty by the Gaussian process on a known device; NaN on a new device."""
    own_width: Floats
    """Log half width of the process's own interval; NaN on a new device."""
    said: Floats
    """[rows, sources] predicted by each source."""
    sources: tuple[str, ...] = whole(default=SOURCES)

    def by(self, source: str) -> Floats:
        """Return the predictions of one source, [rows]."""
        return np.asarray(self.said[:, self.sources.index(source)])

    @staticmethod
    def of(
        situation: str, groups: tuple[Strings, Strings], log_seconds: Floats,
        predicted: Mapping[str, Floats], process: tuple[Floats, Floats] | None = None,
    ) -> SourceTimes:  # fmt: skip
        """Return the rows of one situation.

        ``groups``: the columns device and group. ``predicted``: log seconds by source.
        ``process``: the columns difficulty and own_width; None: NaN.
        """
        made, none = np.full(len(log_seconds), situation), np.full(len(log_seconds), np.nan)
        said = np.column_stack([predicted.get(one, none) for one in SOURCES])
        (device, group), (hard, own_width) = groups, process or (none, none)
        return SourceTimes(made, made, device, group, log_seconds, hard, own_width, said)

    @staticmethod
    def joined(parts: Sequence[SourceTimes]) -> SourceTimes:
        """Return the rows of all ``parts``, one part after the other."""
        names = [one.name for one in fields(SourceTimes) if one.name != "sources"]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        }
        return SourceTimes(**columns)


def by_operators(rows: Runs) -> Floats:
    """Return log seconds per image by the operator bundle, [rows]; NaN on CPUs and without a
    graph."""
    found = np.full(len(rows), np.nan)
    model = operator_model()
    known: dict[tuple[Any, ...], float] = {}
    for row in np.flatnonzero(rows.has_graph & np.isin(rows.device, GPUS)).tolist():
        device, precision, graph, batch, compiled = key = tuple(
            getattr(rows, name)[row].item()
            for name in ("device", "precision", "graph", "batch", "compiled")
        )
        if key not in known:
            known[key] = image_seconds(model, (device, precision, graph, batch, compiled))
        found[row] = np.log(known[key])
    return found


def on_known_device(
    situation: str,
    operators: Floats,
    seed: int,
    advance: Callable[..., None],
) -> SourceTimes:
    """Return predictions of all rows with a graph, each held out by architecture or by family.

    ``operators``: log seconds per image by the operator bundle, [all rows of timm]; NaN: none.
    """
    split, data = KNOWN[situation], samples()
    group = split.groups(data.rows)
    found = left_out(split, seed, advance)
    shipped = {one.name: one.log_width for one in verify().settings}
    of_setting = np.array([shipped[name] for name in data.by_graph.setting.tolist()])
    rows = np.flatnonzero(~np.isnan(found[:, 0]) & data.rows.has_graph)
    log_seconds, hard = found[rows, 0], found[rows, 1]
    predicted = {MEASURED: log_seconds, OPERATORS: operators[rows]}
    if split is not MODEL:
        predicted[TRANSFER] = _transferred(split.folds(data.rows, seed))
        predicted[TRANSFER] = predicted[TRANSFER][np.isin(_graph_rows(data.rows), rows)]
    return SourceTimes.of(
        situation, (data.rows.device[rows], group[rows]), np.log(data.rows.seconds[rows]),
        predicted, (hard, hard * of_setting[rows]),
    )  # fmt: skip


def _graph_rows(rows: Runs) -> Places:
    return np.flatnonzero(rows.has_graph)


def _transferred(parts: Sequence[Fold]) -> Floats:
    """Return log seconds, [rows with a graph], by the Gaussian process between platforms.

    Each row is predicted from the training rows of its fold. The covariance (27 numbers) is the
    shipped bundle's; the bundle's measured rows are not used.
    """
    table, kernel = timm_cases(), load_transfer().kernel
    place = np.full(int(max(one.test.max() for one in parts)) + 1, -1)
    place[_graph_rows(runs())] = np.arange(len(table))
    found = np.full(len(table), np.nan)
    for part in parts:
        test = place[part.test][place[part.test] >= 0]
        known, asked = table[np.setdiff1d(np.arange(len(table)), test)], table[test]
        after = fit(known, kernel)
        across = kernel.covariance(asked.cases, known.cases)
        found[test] = across @ after.weights + after.offset + asked.cases.log_roof
    return found


def unseen_device(
    operators: Floats,
    seed: int,
    advance: Callable[[str], None],
    *,
    most: int = ARCHITECTURES,
    draws: int = 2,
) -> SourceTimes:
    """Return predictions with each device in turn as the new one.

    A third of the architectures is held out on all devices and predicted; k rows of one stack, of
    the other architectures, are given. ``most``: architectures that the covariance is fitted on.
    ``draws``: random draws of the given rows for each k.
    """
    table = timm_cases()
    rows_of = np.flatnonzero(runs().has_graph)
    parts = []
    for device in np.unique(table.device).tolist():
        known = table[np.flatnonzero(table.device != device)]
        mine = np.flatnonzero(table.device == device)
        new = table[mine]
        kernel = learn(known, seed=seed, most=most)
        for fold in folds_of(new.architecture, _MODEL_FOLDS, seed):
            test = fold.test
            names = np.unique(new.architecture[test])
            part = known[np.flatnonzero(~np.isin(known.architecture, names))]
            one = _New(
                new, operators[rows_of[mine]], test,
                methods.guess_of(fit(part, kernel), new.cases),
                methods.nearest(part, new.cases, kernel),
                methods.roofline(part, new.cases, kernel),
            )  # fmt: skip
            for k in SAMPLES:
                for draw in range(draws if k else 1):
                    parts += one.predictions(k, (seed, draw))
        advance(str(device))
    return SourceTimes.joined(parts)


@dataclass(frozen=True)
class _New:
    """A new device, of which only the given rows are known."""

    table: Measured
    operators: Floats
    test: Places
    """Row numbers of the architectures that are held out on all devices."""
    process: methods.Guess
    near: methods.Guess
    under_roofs: methods.Guess

    def predictions(self, k: int, seed: tuple[int, int]) -> list[SourceTimes]:
        """Return predictions for each default stack (on GPUs: without a compiler) from k rows."""
        new, found = self.table, []
        gpu = bool(new.cases.gpu[0])
        by_default = new.cases.fused == int(not gpu)
        for place, stack in enumerate(np.unique(new.stack[by_default]).tolist()):
            own = np.flatnonzero(new.stack == stack)
            pool = np.setdiff1d(own, self.test)
            given = np.random.default_rng([*seed, place]).permutation(pool)[:k]
            found.append(self._part(np.intersect1d(own, self.test), given, gpu=gpu))
        return found

    def _part(self, test: Places, given: Places, *, gpu: bool) -> SourceTimes:
        new, k = self.table, len(given)
        residual, under = new.residual[given], new.cases.log_roof[test]
        predicted = {
            TRANSFER: self.process(given, residual)[test] + under,
            ROOFLINE: self.under_roofs(given, residual)[test] + under,
            OPERATORS: self.operators[test],
        }
        if gpu:
            predicted[NEAREST] = self.near(given, residual)[test] + under
        new_device = IMAGES_IN_HALF if gpu else NEW_CPU
        situation = with_runs(k, gpu=gpu) if k else new_device
        device = new.device[test]
        return SourceTimes.of(situation, (device, device), new.log_seconds[test], predicted)


def whole_models(seed: int, advance: Callable[[str], None]) -> SourceTimes:
    """Return NeuSight's language models (fp32 inference), predicted by operators fitted on other
    silicon."""
    summed = language_models(lambda chip: without(chip, seed))
    rows = summed[summed.part == "inference"]
    advance("whole models")
    return SourceTimes.of(
        LANGUAGE_IN_FP32, (rows.gpu, rows.gpu), np.log(rows.measured),
        {OPERATORS: np.log(rows.predicted)},
    )  # fmt: skip


def all_situations(seed: int, advance: Callable[..., None] = lambda *_: None) -> SourceTimes:
    """Return the held-out rows of all situations. Raises ToolMissing, DocumentError."""
    operators = by_operators(runs())
    return SourceTimes.joined([
        *(on_known_device(one, operators, seed, advance) for one in KNOWN),
        unseen_device(operators, seed, advance), whole_models(seed, advance),
    ])  # fmt: skip
