"""What each source of a model graph's time predicts of measurements that it never saw.

Two situations of a device: *known* (other models were measured there; architectures or families
are held out by folds) and *new* (all rows of the device are held out, and a third of the
architectures everywhere; ``k`` rows of a stack, of other architectures, are given back). GPUs are
asked for what they run by default, without a compiler. The operator bundle is fitted to other data
sets, so timm's rows are all held out of it; NeuSight's whole models are predicted by operators of
other silicon. Rooflines are fitted to nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from berth.predictor.families.graph.latency.bundle import verify
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.operators.predictor import operator_model
from berth.predictor.families.graph.source_errors import (
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
from berth.predictor.hardware.gpus import find
from berth.predictor.learning.folds import folds
from lab.latency.data import Places, Runs, Strings, runs
from lab.latency.process import choose, fit_all, tell
from lab.latency.samples import samples
from lab.latency.splits import FAMILY, groups_of, split
from lab.operators import images
from lab.operators import models as language_models
from lab.operators.held_out import without
from lab.transfer import baselines
from lab.transfer.fit import fit
from lab.transfer.learn import ARCHITECTURES, learn
from lab.transfer.table import Table, timm_table

SAMPLES = (0, *RUNS)
_FOLDS, _FAMILY_FOLDS, _MODEL_FOLDS = 5, 10, 3


@dataclass(frozen=True)
class HeldOut:
    """[n] rows of one situation. Times are log seconds of an image; NaN: does not answer."""

    split: Strings
    """The situation that was made: what was held out."""
    situation: Strings
    """The one that it is predicted in: on a known device by the model's difficulty."""
    device: Strings
    group: Strings
    """What was held out together: the device, the architecture or the family."""
    log_seconds: Floats
    difficulty: Floats
    """Of the process on a known device; else NaN; likewise"""
    own_width: Floats
    """half width that it says of itself."""
    predicted: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.log_seconds)

    def __getitem__(self, rows: Any) -> HeldOut:
        plain = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "predicted"}
        return HeldOut(predicted={n: v[rows] for n, v in self.predicted.items()}, **plain)

    @staticmethod
    def of(
        situation: str, groups: tuple[Strings, Strings], log_seconds: Floats,
        predicted: dict[str, Floats], process: tuple[Floats, Floats] | None = None,
    ) -> HeldOut:  # fmt: skip
        """``groups``: device and group; ``process``: difficulty and its own width."""
        made, none = np.full(len(log_seconds), situation), np.full(len(log_seconds), np.nan)
        return HeldOut(made, made, *groups, log_seconds, *(process or (none, none)), predicted)

    @staticmethod
    def joined(*parts: HeldOut) -> HeldOut:
        """One after the other; a source that a part lacks does not answer there."""
        names = sorted({name for part in parts for name in part.predicted})
        plain = {
            f.name: np.concatenate([getattr(part, f.name) for part in parts])
            for f in fields(HeldOut)
            if f.name != "predicted"
        }
        predicted = {
            name: np.concatenate(
                [part.predicted.get(name, np.full(len(part), np.nan)) for part in parts]
            )
            for name in names
        }
        return HeldOut(predicted=predicted, **plain)


def by_operators(rows: Runs) -> Floats:
    """[rows] log seconds of an image; NaN on CPUs and where there is no graph."""
    found = np.full(len(rows), np.nan)
    model = operator_model()
    known: dict[tuple[Any, ...], float] = {}
    for row in np.flatnonzero(rows.has_graph & np.isin(rows.device, images.GPUS)).tolist():
        device, precision, graph, batch, compiled = key = tuple(
            getattr(rows, name)[row].item()
            for name in ("device", "precision", "graph", "batch", "compiled")
        )
        if key not in known:
            known[key] = images.seconds_of(model, (device, precision, graph, batch, compiled))
        found[row] = np.log(known[key])
    return found


def on_known_device(
    kind: str, operators: Floats, seed: int, advance: Callable[[str], None]
) -> HeldOut:
    """All rows with a graph, by processes that saw nothing of their architecture or family."""
    data = samples()
    data = data.grouped(groups_of(data.rows, kind))
    told, hard = (np.full(len(data.rows), np.nan) for _ in range(2))
    shipped = {one.name: one.log_width for one in verify().settings}
    of_setting = np.array([shipped[name] for name in data.setting.tolist()])
    count = _FAMILY_FOLDS if kind == FAMILY else _FOLDS
    for n, one in enumerate(split(data.rows, kind, seed=seed, count=count)):
        train = data.by_graph[one.train[data.graph[one.train]]]
        test = one.test[data.graph[one.test]]
        told[test], hard[test] = tell(fit_all(train, choose(train, seed)), data.by_graph[test])
        advance(f"{kind} {n + 1}")
    rows = np.flatnonzero(~np.isnan(told) & data.rows.has_graph)
    own = data.rows[rows]
    return HeldOut.of(
        known_device(unlike=kind == FAMILY), (own.device, groups_of(data.rows, kind)[rows]),
        np.log(own.seconds), {MEASURED: told[rows], OPERATORS: operators[rows]},
        (hard[rows], hard[rows] * of_setting[rows]),
    )  # fmt: skip


def unseen_device(
    operators: Floats,
    seed: int,
    advance: Callable[[str], None],
    *,
    most: int = ARCHITECTURES,
    draws: int = 2,
) -> HeldOut:
    """Each device in turn new, a third of the architectures unseen anywhere, with k of a stack's
    rows of the other architectures given back."""
    table = timm_table()
    rows_of = np.flatnonzero(runs().has_graph)
    parts = []
    for device in np.unique(table.device).tolist():
        known = table[np.flatnonzero(table.device != device)]
        mine = np.flatnonzero(table.device == device)
        new = table[mine]
        kernel = learn(known, seed=seed, most=most)
        for held in folds(new.architecture.tolist(), _MODEL_FOLDS, seed):
            test = np.array(held)
            names = np.unique(new.architecture[test])
            part = known[np.flatnonzero(~np.isin(known.architecture, names))]
            one = _New(
                new, operators[rows_of[mine]], test,
                baselines.guess_of(fit(part, kernel), new.cases),
                baselines.nearest(part, new.cases, kernel),
                baselines.roofline(part, new.cases, kernel),
            )  # fmt: skip
            for k in SAMPLES:
                for draw in range(draws if k else 1):
                    parts += one.predictions(k, (seed, draw))
        advance(str(device))
    return HeldOut.joined(*parts)


@dataclass(frozen=True)
class _New:
    """A device that nothing is known of, but for what is given back."""

    table: Table
    operators: Floats
    test: Places
    """Rows of architectures seen nowhere."""
    process: baselines.Guess
    near: baselines.Guess
    under_roofs: baselines.Guess

    def predictions(self, k: int, seed: tuple[int, int]) -> list[HeldOut]:
        """Of each stack that runs by default: on GPUs without a compiler."""
        new, found = self.table, []
        gpu = bool(new.cases.gpu[0])
        by_default = new.cases.fused == int(not gpu)
        for place, stack in enumerate(np.unique(new.stack[by_default]).tolist()):
            own = np.flatnonzero(new.stack == stack)
            pool = np.setdiff1d(own, self.test)
            given = np.random.default_rng([*seed, place]).permutation(pool)[:k]
            found.append(self._part(np.intersect1d(own, self.test), given, gpu=gpu))
        return found

    def _part(self, test: Places, given: Places, *, gpu: bool) -> HeldOut:
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
        return HeldOut.of(situation, (device, device), new.log_seconds[test], predicted)


def whole_models(seed: int, advance: Callable[[str], None]) -> HeldOut:
    """NeuSight's inference of language models in fp32, by operators of other silicon."""
    summed = language_models.summed(lambda chip: without(chip, seed), advance)
    rows = [n for n, row in enumerate(summed.rows) if not (row.training or row.option)]
    gpu = np.array([find(summed.rows[n].device).name for n in rows])
    seconds = np.array([summed.rows[n].seconds for n in rows])
    return HeldOut.of(
        LANGUAGE_IN_FP32, (gpu, gpu), np.log(seconds), {OPERATORS: np.log(summed.seconds[rows])}
    )
