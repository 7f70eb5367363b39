"""Error against samples, each device in turn new.

A *platform* is, as in the thesis (section 7.5.4), a device with its software (precision, compiler,
memory layout, version of torch): all rows of the device are held out, ``k`` rows of a stack are
given back and the stack's other rows are predicted. Architectures that were given are in no test.
*Seen* models were measured on other devices; *unseen* ones nowhere (a third of the architectures
at a time), and the samples are of the other two thirds. The covariance is learnt anew for each
held-out device, from the other devices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.graph.transfer.cases import Codes
from berth.predictor.families.graph.transfer.posterior import TransferWidth
from lab.ground.figures import Figures, Point, curve, figures, over
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.transfer.platform_kernel import ARCHITECTURES, learn
from lab.transfer.transfer_cases import Measured
from lab.transfer.transfer_methods import METHODS, Guess, Method

SAMPLES = (0, 1, 2, 4, 8, 16, 32)
DRAWS = 5
THIRDS = Split("unseen model", "architecture", 3)
SPLIT = (
    f"each device in turn new (all its rows held out), k samples drawn {DRAWS} times, given "
    f"architectures in no test; unseen models: {THIRDS.count} folds over architectures"
)
SEEN, UNSEEN = "seen elsewhere", "seen nowhere"
PROCESS = METHODS[0].name
WIDTHS = (UNSEEN, PROCESS)
"""What intervals are taken from."""
_FOR_TAU = 400


@dataclass(frozen=True, slots=True)
class Curve:
    """One method on one device."""

    device: str
    gpu: bool
    models: str
    method: str
    points: tuple[Point, ...]
    """For each number of samples."""
    log_width: tuple[float, ...] = ()
    """90 % of absolute log errors are below, of all draws."""

    @property
    def what(self) -> tuple[str, str]:
        """Return which models are tested, by which method."""
        return self.models, self.method


@dataclass(frozen=True, slots=True)
class FewShot:
    """All curves."""

    samples: tuple[int, ...]
    curves: tuple[Curve, ...]

    def mean(self, what: tuple[str, str], *, gpu: bool) -> Curve | None:
        """Over devices of the kind."""
        mine = [one for one in self.curves if (one.gpu, one.what) == (gpu, what)]
        if not mine:
            return None
        points = zip(*(one.points for one in mine), strict=True)
        return Curve("GPUs" if gpu else "CPUs", gpu, *what, tuple(over(each) for each in points))

    def widths(self) -> list[TransferWidth]:
        """The widest of the devices of each kind: a new one may be as unlike. Raises UsageError
        where there are no figures of GPUs, or none of CPUs."""
        made = []
        for gpu in (True, False):
            own = [one.log_width for one in self.curves if (one.gpu, one.what) == (gpu, WIDTHS)]
            if not own:
                raise UsageError("the evaluation has no figures of GPUs, or none of CPUs")
            widest = np.minimum.accumulate(np.max(own, axis=0)).tolist()
            made += [
                TransferWidth(samples=k, gpu=gpu, log_width=w)
                for k, w in zip(self.samples, widest, strict=True)
            ]
        return made


def steps(table: Measured) -> int:
    """Return how often ``evaluate_few_shot`` calls ``advance``."""
    return len(np.unique(table.device)) * (1 + (THIRDS.count or 0))


def evaluate_few_shot(
    table: Measured,
    *,
    seed: int = 0,
    methods: Sequence[Method] = METHODS,
    samples: tuple[int, ...] = SAMPLES,
    most: int = ARCHITECTURES,
    advance: Callable[..., None] = lambda *_: None,
) -> FewShot:
    """Return every method on every device.

    Raises UsageError where so many ``samples`` leave no other model to test.
    """
    curves: list[Curve] = []
    for device in np.unique(table.device).tolist():
        known, new = table[table.device != device], table[table.device == device]
        kernel = learn(known, seed=seed, most=most)
        everything = np.arange(len(new))
        guesses = {one.name: one.fit(known, new.cases, kernel) for one in methods}
        advance()
        tests = {SEEN: [_Part(everything, everything, guesses)], UNSEEN: []}
        for fold in THIRDS.folds(new, seed):
            part = known[~np.isin(known.architecture, new.architecture[fold.test])]
            guesses = {one.name: one.fit(part, new.cases, kernel) for one in methods}
            tests[UNSEEN].append(_Part(fold.test, fold.train, guesses))
            advance()
        for models, parts in tests.items():
            curves += [
                _curve(new, parts, (models, one.name), samples, seed=seed) for one in methods
            ]
    return FewShot(samples, tuple(curves))


@dataclass(frozen=True, slots=True)
class _Part:
    test: Codes
    pool: Codes
    """What samples may be drawn from."""
    guesses: dict[str, Guess]


def _figures(new: Measured, rows: Codes, residual: Floats) -> Figures:
    return figures(
        new.residual[rows], residual, new.cases.model[rows], log_base=new.cases.log_roof[rows],
        rows_for_tau=_FOR_TAU,
    )  # fmt: skip


def _curve(
    new: Measured,
    parts: Sequence[_Part],
    what: tuple[str, str],
    samples: tuple[int, ...],
    *,
    seed: int,
) -> Curve:
    errors: dict[int, list[Floats]] = {}

    def one(count: int, draw: int) -> Figures:
        rows, guess = _predicted(new, parts, what, count, seed=(seed, draw))
        if not len(rows):
            raise UsageError(
                f"{count} samples of {new.device[0]} leave no other model to test",
                hint="measure more models, or give fewer samples",
            )
        errors.setdefault(count, []).append(np.abs(guess - new.residual[rows]))
        return _figures(new, rows, guess)

    points = curve(samples, DRAWS, one)
    widths = tuple(float(np.quantile(np.concatenate(errors[k]), LEVEL)) for k in samples)
    return Curve(str(new.device[0]), bool(new.cases.gpu[0]), *what, points, widths)


def _predicted(
    new: Measured,
    parts: Sequence[_Part],
    what: tuple[str, str],
    count: int,
    *,
    seed: tuple[int, int],
) -> tuple[Codes, Floats]:
    _, method = what
    rows, guesses = [], []
    for part in parts:
        guess = part.guesses[method]
        for place, stack in enumerate(np.unique(new.stack).tolist()):
            mine = np.flatnonzero(new.stack == stack)
            pool = np.intersect1d(part.pool, mine)
            given = np.random.default_rng([*seed, place]).permutation(pool)[:count]
            test = np.intersect1d(part.test, mine)
            test = test[~np.isin(new.architecture[test], new.architecture[given])]
            rows.append(test)
            guesses.append(guess(given, new.residual[given])[test])
    return np.concatenate(rows), np.concatenate(guesses)
