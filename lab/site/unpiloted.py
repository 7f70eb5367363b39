"""Where programs that nobody piloted run best, from past runs of theirs and of other programs.

AIWC's 15 devices (four CPUs, eleven GPUs) and Gavel's three GPUs as sites. Each application is left
out in turn: of its kernels only the times on the kinds where they *ran* are known. What ships
(``plugin.history.site_ratios``) gives other CPUs the mean of the times on the CPUs where the
program ran times the population ratios of the other applications, and other GPUs likewise: nothing
is said of a kind whose executables the program never ran. Beside it stand the plain average of all
pairs, coarse features that accounting has, and the posterior of ``learning.cells`` on those runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import SHIPPED, Cell, Hardware, RunShape, covariance
from berth.predictor.learning.history.kernel_ratios import population_of
from berth.predictor.learning.history.kind_ratios import (
    HOME,
    KindRatios,
    LogRatio,
    Program,
    in_usual_order,
    mean_ratio,
)
from berth.predictor.learning.history.run_pairs import PAIRS, Platforms, RunPair
from lab.datasets import aiwc, locate
from lab.datasets.gavel import DEVICES, THROUGHPUTS, scaled
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.relative.data import AIWC_DATA

BARS = {"AIWC": 1.25, "Gavel": 1.02}
"""Largest regret of what ships, once a program ran on a CPU and a GPU (AIWC), or at first."""
SHIPS = "**times on CPUs, and on GPUs, where it ran, by population ratios (ships)**"
RIDGE = 0.1
"""Penalty of the coarse features, in squared standard deviations."""
_FLAT = 100.0
"""Variance of a program's own log time: nothing is known of it."""


@dataclass(frozen=True)
class Site:
    """Measured times of programs on all kinds of a site."""

    name: str
    kinds: tuple[str, ...]
    places: tuple[Hardware, ...]
    groups: tuple[str, ...]
    """[rows] application or model of each row: a group is left out as a whole."""
    log_seconds: Floats
    """[rows, kinds]"""
    coarse: Floats
    """[rows, features] logs of what accounting could tell: memory touched, units of work."""

    def only(self, device: str) -> Site:
        """Return the site with its CPUs (``cpu``) or its GPUs (``gpu``) alone."""
        columns = [n for n, place in enumerate(self.places) if place.kind == device]
        return Site(
            f"{self.name}, {device.upper()}s alone",
            tuple(self.kinds[n] for n in columns), tuple(self.places[n] for n in columns),
            self.groups, self.log_seconds[:, columns], self.coarse,
        )  # fmt: skip

    def of(self, device: str) -> list[int]:
        """Return the columns of CPUs or of GPUs."""
        return [n for n, place in enumerate(self.places) if place.kind == device]

    @cached_property
    def left_out(self) -> dict[str, Floats]:
        """Return by group [rows] the weights of the other groups' rows: equal for all groups."""
        weights = {}
        for held in sorted(set(self.groups)):
            each = [0.0 if g == held else 1 / self.groups.count(g) for g in self.groups]
            weights[held] = np.array(each) / np.sum(each)
        return weights


def aiwc_site() -> Site:
    """Return AIWC's devices as a site."""
    data = aiwc.rows()
    family = [aiwc.KINDS[device] for device in data.devices]
    places = [
        Hardware(device, "cpu" if of in ("cpu", "manycore") else "gpu", of)
        for device, of in zip(data.devices, family, strict=True)
    ]
    columns = [data.counters.index(n) for n in ("total_memory_footprint", "workitems")]
    return Site(
        "AIWC", data.devices, tuple(places), data.applications,
        np.log(data.seconds), np.log1p(data.values[:, columns]),
    )  # fmt: skip


def gavel_site() -> Site:
    """Return Gavel's GPUs as a site, with the job types that ran on one GPU of all three."""
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for job in scaled(locate(THROUGHPUTS)):
        if job.gpus == 1:
            rates.setdefault((job.model, job.job_type), {})[job.device] = job.steps_per_s
    complete = {key: rate for key, rate in rates.items() if len(rate) == len(DEVICES)}
    seconds = [[-math.log(rate[device]) for device in DEVICES] for rate in complete.values()]
    return Site(
        "Gavel", DEVICES, tuple(Hardware(device, "gpu", "nvidia") for device in DEVICES),
        tuple(model for model, _ in complete), np.array(seconds), np.empty((len(seconds), 0)),
    )  # fmt: skip


Predicted = Callable[[Site, str, Sequence[int]], Floats]
"""Return [rows of the group, kinds] log seconds predicted for a group left out, of which the times
in the columns where it ran are known; infinite: nothing is predicted."""


def pair_average(site: Site, held: str, ran: Sequence[int]) -> Floats:
    """Return the other groups' mean log times, moved to the first known time."""
    known = _rows(site, held)
    mean = site.left_out[held] @ site.log_seconds
    return np.asarray(mean + (known[:, ran[:1]] - mean[ran[0]]))


def coarse_features(site: Site, held: str, ran: Sequence[int]) -> Floats:
    """Return ridge regressions of the ratio to the first kind on the time there and on coarse
    features; known times count as they are."""
    home, weights = ran[0], site.left_out[held]
    features = np.column_stack([site.log_seconds[:, home], site.coarse])
    features = features - weights @ features
    features = features / np.sqrt(weights @ features**2 + 1e-9)
    ratios = site.log_seconds - site.log_seconds[:, [home]]
    mean = weights @ ratios
    scaled_features = features * weights[:, None]
    slopes = np.linalg.solve(
        scaled_features.T @ features + RIDGE * np.eye(features.shape[1]),
        scaled_features.T @ (ratios - mean),
    )
    own = [group == held for group in site.groups]
    predicted = site.log_seconds[own][:, [home]] + mean + features[own] @ slopes
    predicted[:, ran] = _rows(site, held)[:, ran]
    return np.asarray(predicted)


def shipped_posterior(site: Site, held: str, ran: Sequence[int]) -> Floats:
    """Return the posterior of the known runs, with the shipped shares of an error as large as other
    programs deviate from the mean; the program's own time is not known."""
    known, weights = _rows(site, held), site.left_out[held]
    mean = weights @ site.log_seconds
    apart = site.log_seconds - mean
    apart = apart - apart.mean(axis=1, keepdims=True)
    deviation = math.sqrt(float((weights @ apart**2).mean()))
    cells = [Cell(place, RunShape(), deviation) for place in site.places]
    shared = covariance(cells, cells, SHIPPED) + _FLAT
    noisy = shared[np.ix_(ran, ran)] + 1e-4 * np.eye(len(ran))
    solved = np.linalg.solve(noisy, (known[:, ran] - mean[ran]).T)
    return np.asarray(mean + (shared[:, ran] @ solved).T)


class Homes:
    """What ships: the times on CPUs, and on GPUs, where the program ran, by population ratios."""

    def __init__(self, site: Site) -> None:
        self._ratios = {held: population(site, held) for held in site.left_out}

    def __call__(self, site: Site, held: str, ran: Sequence[int]) -> Floats:
        """Return the log seconds on kinds that run executables of the program."""
        known = _rows(site, held)
        predicted = np.full(known.shape, np.inf)
        for device in ("cpu", "gpu"):
            homes = [n for n in ran if site.places[n].kind == device]
            if not homes:
                continue
            by_home = {
                n: [self._ratio(site, held, n, home) for home in homes] for n in site.of(device)
            }
            usual = {str(n): ratios[0].mid for n, ratios in by_home.items()}
            for row, times in zip(predicted, known, strict=True):
                log_times = {
                    str(n): _log_time(times[n])
                    if n in homes
                    else mean_ratio(
                        [
                            r._replace(mid=r.mid + times[h])
                            for r, h in zip(ratios, homes, strict=True)
                        ]
                    )
                    for n, ratios in by_home.items()
                }
                for name, mid in in_usual_order(log_times, usual).items():
                    row[int(name)] = mid
        return predicted

    def _ratio(self, site: Site, held: str, kind: int, home: int) -> LogRatio:
        names = site.kinds[kind], site.kinds[home]
        return self._ratios[held].between(*names, "", everybody=True) or HOME

    def coverage(self, site: Site, *, by_kernels: bool) -> float:
        """Return the share of ratios of two kinds of one device within the 90 % interval, groups
        equal; ``by_kernels``: the other groups' rows are benchmark kernels, not programs."""
        held_share = []
        for held in site.left_out:
            inside = []
            for device in ("cpu", "gpu"):
                for first, second in itertools.combinations(site.of(device), 2):
                    names = site.kinds[first], site.kinds[second]
                    logs = site.log_seconds[:, first] - site.log_seconds[:, second]
                    own = np.array([group == held for group in site.groups])
                    if by_kernels:
                        kernels = population_of(logs[~own].tolist())
                        ratio = KindRatios({}).between(*names, "", kernels=kernels)
                    else:
                        ratio = self._ratios[held].between(*names, "", everybody=True)
                    assert ratio is not None  # noqa: S101 - all programs ran on all kinds
                    inside.append(np.abs(logs[own] - ratio.mid) <= ratio.half_width)
            held_share.append(float(np.mean(inside)))
        return float(np.mean(held_share))


def population(site: Site, held: str) -> KindRatios:
    """Return the ratios that the programs of all other groups show, each a user's; the times are
    of many runs, so they count as that many pairs."""
    programs: dict[Program, dict[Platforms, list[RunPair]]] = {}
    for number, (group, logs) in enumerate(zip(site.groups, site.log_seconds, strict=True)):
        if group == held:
            continue
        programs[group, number] = {
            (site.kinds[a], site.kinds[b]): [RunPair(float(logs[a] - logs[b]), 0.0, PAIRS)]
            for device in ("cpu", "gpu")
            for a, b in itertools.permutations(site.of(device), 2)
            if site.kinds[a] < site.kinds[b]
        }
    return KindRatios(programs)


def _log_time(log_seconds: float) -> LogRatio:
    """Return a measured time, for comparison with predicted ones."""
    return HOME._replace(mid=log_seconds)


def _rows(site: Site, held: str) -> Floats:
    return site.log_seconds[[group == held for group in site.groups]]


def regret(site: Site, predicted: Predicted, where: Sequence[Sequence[int]]) -> float:
    """Return the time where a program is predicted fastest over that on its best kind: geometric
    mean over the sets of kinds ``where`` programs ran, groups equal."""
    logs = []
    for held in site.left_out:
        known = _rows(site, held)
        for ran in where:
            picked = predicted(site, held, ran).argmin(axis=1)
            lost = known[np.arange(len(known)), picked] - known.min(axis=1)
            logs.append(float(lost.mean()))
    return math.exp(float(np.mean(logs)))


def evaluate(_: Options) -> Report:
    """Report regret by where the programs ran, and how many intervals of ratios hold."""
    sites = aiwc_site(), gavel_site()
    sections = []
    regrets: dict[str, dict[str, list[float]]] = {}
    coverage: dict[str, list[float]] = {}
    for site in (*sites, sites[0].only("cpu"), sites[0].only("gpu")):
        homes = Homes(site)
        methods: dict[str, Predicted] = {
            "the same kind for all: average of all pairs": pair_average,
            "time on the first kind and coarse features": coarse_features,
            "posterior that learning ships": shipped_posterior,
            SHIPS: homes,
        }
        where = _where(site)
        table = {
            name: [regret(site, method, sets) for sets in where.values()]
            for name, method in methods.items()
        }
        rows = [(name, *(f"{value:.3f}" for value in values)) for name, values in table.items()]
        sections.append(Section(f"{site.name}: regret", ("time by", *where), rows))
        regrets[site.name] = table
        coverage[site.name] = [
            homes.coverage(site, by_kernels=kernels) for kernels in (False, True)
        ]
    sections.append(
        Section(
            "90 % intervals of a program's ratio between two kinds that hold it",
            ("site", "by programs", "by benchmark kernels alone"),
            [(name, *(f"{value:.1%}" for value in each)) for name, each in coverage.items()],
        )
    )
    reached = {"AIWC": regrets["AIWC"][SHIPS][1], "Gavel": regrets["Gavel"][SHIPS][0]}
    bars = [(name, f"<= {bar}", f"{reached[name]:.3f}") for name, bar in BARS.items()]
    sections.append(Section("Bars of what ships", ("regret", "bar", "is"), bars))
    split = "each application (Gavel: each model) left out; no counter of it is known"
    return Report(
        "Programs that nobody piloted",
        (AIWC_DATA, split),
        tuple(sections),
        {"regret": regrets, "coverage": coverage},
    )


def _where(site: Site) -> dict[str, list[list[int]]]:
    """Return sets of kinds where a program ran, by title."""
    cpus, gpus = site.of("cpu"), site.of("gpu")
    every = range(len(site.kinds))
    sets = {"ran on one kind": [[n] for n in every]}
    if cpus and gpus:
        sets["on a CPU and a GPU"] = [[c, g] for c in cpus for g in gpus]
        home = site.kinds.index(aiwc.XEON)
        others = [n for n in every if n != home]
        sets["on the Xeon and another"] = [[home, n] for n in others]
        sets["on the Xeon and two others"] = [
            [home, *pair] for pair in itertools.combinations(others, 2)
        ]
    else:
        sets["on two kinds"] = [list(pair) for pair in itertools.permutations(every, 2)]
    return sets
