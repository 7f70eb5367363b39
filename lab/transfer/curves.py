"""Error against samples: each device in turn new, then each of some families of models.

A *platform* is, as in the thesis (section 7.5.4), a device with its software (precision, compiler,
memory layout, version of torch): all rows of the device are held out, ``k`` rows of a stack are
given back and the stack's other rows are predicted. The harder variant draws ``k`` rows from all
stacks of the device and predicts all of them. Architectures that were given are in no test.
*Seen* models were measured on other devices; *unseen* ones nowhere (a third of the architectures
at a time), and the samples are of the other two thirds. The covariance is learnt anew for each
held-out device, from the other devices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.transfer.cases import Codes
from berth.predictor.learning.folds import folds
from berth.predictor.learning.graphs.posterior import Joint, Posterior
from berth.predictor.learning.metrics import kendall
from lab.latency.splits import WITHIN
from lab.transfer.baselines import METHODS, Guess, Method
from lab.transfer.fit import fit
from lab.transfer.learn import ARCHITECTURES, learn
from lab.transfer.table import Table

SAMPLES = (0, 1, 2, 4, 8, 16, 32)
DRAWS = 5
FOLDS = 3
SPLIT = (
    f"each device in turn new (all its rows held out), k samples drawn {DRAWS} times, given "
    f"architectures in no test; unseen models: {FOLDS} folds over architectures"
)
STACK, DEVICE = "one stack", "all stacks of the device"
SEEN, UNSEEN = "seen elsewhere", "seen nowhere"
ADVISED = "process, advised"
FAMILIES = ("vit", "swin", "convnext", "efficientnet", "resnet", "regnet")
LEVEL = 0.9
_FOR_TAU = 400


@dataclass(frozen=True)
class Curve:
    """One method on one device: figures for each number of samples, averaged over draws."""

    device: str
    gpu: bool
    drawn_from: str
    models: str
    method: str
    mape: tuple[float, ...]
    median: tuple[float, ...]
    within: tuple[float, ...]
    """Acc(10 %)."""
    tau: tuple[float, ...]
    """Kendall's, of the first draw, over at most 400 rows of different models."""
    within_low: tuple[float, ...]
    """Over draws."""
    within_high: tuple[float, ...]
    log_width: tuple[float, ...]
    """90 % of absolute log errors are below."""


@dataclass(frozen=True)
class FamilyResult:
    """One family of models that no row was learnt from."""

    family: str
    rows: int
    method: str
    samples: int
    mape: float
    median: float
    within: float
    tau: float
    within_low: float
    within_high: float


@dataclass(frozen=True)
class FewShot:
    """All of it."""

    split: str
    samples: tuple[int, ...]
    curves: tuple[Curve, ...]
    families: tuple[FamilyResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def mean(self, *, gpu: bool, drawn_from: str, models: str, method: str) -> Curve | None:
        """Over devices of the kind; the least and greatest draw of each, averaged."""
        mine = [
            c for c in self.curves
            if (c.gpu, c.drawn_from, c.models, c.method) == (gpu, drawn_from, models, method)
        ]  # fmt: skip
        if not mine:
            return None
        means = {
            name: tuple(np.mean([getattr(c, name) for c in mine], axis=0).tolist())
            for name in ("mape", "median", "within", "tau", "within_low", "within_high",
                         "log_width")
        }  # fmt: skip
        return Curve("GPUs" if gpu else "CPUs", gpu, drawn_from, models, method, **means)

    def coverage(self) -> dict[str, tuple[float, ...]]:
        """Half width (log) that each held-out device would be given by the others of its kind,
        over what it needed: at least 1 where the nominal 90 % are covered."""
        found = {}
        mine = [c for c in self.curves if (c.drawn_from, c.models, c.method) == WIDTHS]
        for one in mine:
            others = [c.log_width for c in mine if c.gpu == one.gpu and c is not one]
            if others:
                given = np.max(others, axis=0)
                found[one.device] = tuple((given / np.array(one.log_width)).tolist())
        return found


WIDTHS = (STACK, UNSEEN, "process")
"""What intervals are taken from."""


def steps(table: Table) -> int:
    """How often ``evaluate_few_shot`` calls ``advance``."""
    return len(np.unique(table.device)) * (1 + FOLDS) + len(_families(table))


def evaluate_few_shot(
    table: Table,
    *,
    seed: int = 0,
    methods: Sequence[Method] = METHODS,
    samples: tuple[int, ...] = SAMPLES,
    most: int = ARCHITECTURES,
    advance: Callable[[], None] = lambda: None,
) -> FewShot:
    """Every method on every device; the process on every family.

    Raises UsageError where so many ``samples`` leave no other model to test.
    """
    curves: list[Curve] = []
    for device in np.unique(table.device).tolist():
        known = table[np.flatnonzero(table.device != device)]
        new = table[np.flatnonzero(table.device == device)]
        kernel = learn(known, seed=seed, most=most)
        tests: dict[str, list[_Fold]] = {SEEN: [], UNSEEN: []}
        everything = np.arange(len(new))
        guesses = {one.name: one.fit(known, new.cases, kernel) for one in methods}
        tests[SEEN].append(_Fold(everything, everything, guesses, None))
        advance()
        for held in folds(new.architecture.tolist(), FOLDS, seed):
            test = np.array(held)
            names = np.unique(new.architecture[test])
            part = known[np.flatnonzero(~np.isin(known.architecture, names))]
            guesses = {one.name: one.fit(part, new.cases, kernel) for one in methods}
            tests[UNSEEN].append(_Fold(test, np.setdiff1d(everything, test), guesses, None))
            advance()
        after = fit(known, kernel).joint(new.cases)
        tests[SEEN][0] = _Fold(everything, everything, tests[SEEN][0].guesses, after)
        for models, parts in tests.items():
            for drawn_from in (STACK, DEVICE):
                curves.extend(
                    _curve(new, parts, (drawn_from, models, one.name), samples, seed)
                    for one in methods
                )
            if models == SEEN:
                curves.append(_curve(new, parts, (STACK, models, ADVISED), samples, seed))
    found = tuple(
        result
        for family in _families(table)
        for result in _family(table, family, samples[-1], seed=seed, most=most, advance=advance)
    )
    return FewShot(SPLIT, samples, tuple(curves), found)


@dataclass(frozen=True)
class _Fold:
    test: Codes
    pool: Codes
    """What samples may be drawn from."""
    guesses: dict[str, Guess]
    joint: Joint | None
    """What samples are advised by."""


@dataclass(frozen=True)
class _Figures:
    mape: float
    median: float
    within: float
    tau: float


def _figures(new: Table, rows: Codes, residual: Floats, *, tau: bool) -> _Figures:
    measured = new.residual[rows]
    error = np.abs(np.expm1(residual - measured))
    order = float("nan")
    if tau:
        some = np.random.default_rng(0).permutation(len(rows))[:_FOR_TAU]
        under, models = new.cases.log_roof[rows][some], new.cases.model[rows][some]
        order = kendall(under + measured[some], under + residual[some], models.tolist())
    return _Figures(
        float(error.mean()), float(np.median(error)), float((error <= WITHIN).mean()), order
    )


def _curve(
    new: Table,
    parts: Sequence[_Fold],
    what: tuple[str, str, str],
    samples: tuple[int, ...],
    seed: int,
) -> Curve:
    drawn_from, models, method = what
    found: list[list[_Figures]] = []
    widths = []
    for count in samples:
        draws = 1 if count == 0 or method == ADVISED else DRAWS
        mine, errors = [], []
        for draw in range(draws):
            rows, guess = _predicted(new, parts, what, count, (seed, draw))
            if not len(rows):
                raise UsageError(
                    f"{count} samples of {new.device[0]} leave no other model to test",
                    hint="measure more models, or give fewer samples",
                )
            measured = new.residual[rows]
            errors.append(np.abs(guess - measured))
            mine.append(_figures(new, rows, guess, tau=draw == 0))
        found.append(mine)
        widths.append(float(np.quantile(np.concatenate(errors), LEVEL)))

    def over(name: str, how: Callable[[list[float]], Any]) -> tuple[float, ...]:
        return tuple(float(how([getattr(f, name) for f in mine])) for mine in found)

    return Curve(
        str(new.device[0]), bool(new.cases.gpu[0]), drawn_from, models, method,
        over("mape", np.mean), over("median", np.mean), over("within", np.mean),
        over("tau", np.nanmean), over("within", min), over("within", max), tuple(widths),
    )  # fmt: skip


def _predicted(
    new: Table,
    parts: Sequence[_Fold],
    what: tuple[str, str, str],
    count: int,
    seed: tuple[int, ...],
) -> tuple[Codes, Floats]:
    drawn_from, _, method = what
    stacks = np.unique(new.stack).tolist() if drawn_from == STACK else [None]
    rows, guesses = [], []
    for part in parts:
        guess = part.guesses["process" if method == ADVISED else method]
        for place, stack in enumerate(stacks):
            mine = np.arange(len(new)) if stack is None else np.flatnonzero(new.stack == stack)
            pool = np.intersect1d(part.pool, mine)
            if method == ADVISED and part.joint is not None:
                given = part.joint.advised(pool, count)
            else:
                given = np.random.default_rng([*seed, place]).permutation(pool)[:count]
            test = np.intersect1d(part.test, mine)
            test = test[~np.isin(new.architecture[test], new.architecture[given])]
            rows.append(test)
            guesses.append(guess(given, new.residual[given])[test])
    return np.concatenate(rows), np.concatenate(guesses)


def _families(table: Table) -> list[str]:
    return [name for name in FAMILIES if name in set(table.family.tolist())]


def _family(
    table: Table,
    family: str,
    most_samples: int,
    *,
    seed: int,
    most: int,
    advance: Callable[[], None],
) -> list[FamilyResult]:
    """No row and ``most_samples`` rows of a family, of all devices together."""
    known = table[np.flatnonzero(table.family != family)]
    new = table[np.flatnonzero(table.family == family)]
    after: Posterior = fit(known, learn(known, seed=seed, most=most))
    joint = after.joint(new.cases, new_platform=False)
    results = []
    for count in (0, most_samples):
        found = []
        for draw in range(DRAWS if count else 1):
            given = np.random.default_rng([seed, draw]).permutation(len(new))[:count]
            test = np.flatnonzero(~np.isin(new.architecture, new.architecture[given]))
            if not len(test):
                continue
            guess = joint.moved(given, new.residual[given]).mean[test]
            found.append(_figures(new, test, guess, tau=True))
        if found:
            within = [f.within for f in found]
            mape, median, mean, tau = (
                float(np.nanmean([getattr(f, name) for f in found]))
                for name in ("mape", "median", "within", "tau")
            )
            results.append(
                FamilyResult(
                    family, len(new), "process", count, mape, median, mean, tau,
                    min(within), max(within),
                )
            )  # fmt: skip
    advance()
    return results
