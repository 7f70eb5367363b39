"""The speed of one core of each microarchitecture, from several lists, each with its own trust.

Unknown is, for each core, the log of its speed at 3 GHz. Known are, each with a standard error:

- *measured*: SPEC CPU 2017 on one core of some models (``cpu_core_scores.csv``), the mean of
  integer and floating-point programs;
- *a public list*: one number of mixed programs a model (``cpu_single_core_list.csv``); a core's is
  the median of its models, and the offset from the measured speeds is unknown, too;
- *gains*: what vendors say of a core over the one before at the same clock (``core_gains.csv``);
- *years*: a trend, for cores of which nothing else is known.

All are linear in the logs, so that the answer is one weighted least-squares solution, and its
covariance gives the error of each core. A second number of a core, for floating-point programs,
makes cores left out worse (17.1 in place of 16.8 %). ``python -m lab cpus --train`` writes it to
``predictor/hardware/core_scores.json``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.hardware.core_speed import (
    AT_HZ,
    CLOCK_EXPONENT,
    CoreScores,
    ScoredCore,
    ScoredModel,
)
from berth.predictor.hardware.processor import Processor, cores, processors
from berth.predictor.hardware.processor_names import core_named, known_processor
from lab.datasets import DataSet, locate
from lab.datasets.cpu_programs import SCORES

LIST = DataSet(
    path="machines/cpu_single_core_list.csv",
    title="Single-core medians of Geekbench 6 of 992 CPUs",
    source="https://browser.geekbench.com/processor-benchmarks",
    licence="figures are facts",
    sha256="6c1b904f9e9cf492cc24423c861fe9f10b4e4eb3081a015af03feb2d982c6cea",
)
GAINS = Path(__file__).with_name("core_gains.csv")
MEASURED_DEVIATION = 0.06
"""A measured model differs so much from its core at its clock: in caches and memory."""
LIST_DEVIATION = 0.10
"""The standard error of a core's median in the list is this."""
TREND_DEVIATION = 0.4
LOOSE_DEVIATION = 2.0
"""The trend has this error where anything else is known of a core: narrow ones are far below."""
FEWEST_IN_LIST = 3
"""Models of a core in the list below which its median is not used."""


@dataclass(frozen=True, slots=True)
class Solution:
    """[cores] logs of speeds at 3 GHz, and their standard errors."""

    names: tuple[str, ...]
    log_speed: Floats
    deviation: Floats


@cache
def measured() -> Mapping[str, tuple[float, float]]:
    """Return the measured (integer, floating-point) score by processor model."""
    of: dict[str, dict[str, float]] = defaultdict(dict)
    with locate(SCORES).open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            of[row["cpu"]][row["suite"]] = float(row["speed_relative_to_epyc_7742"])
    return {cpu: (suites["int"], suites["fp"]) for cpu, suites in of.items()}


@cache
def listed_models() -> list[tuple[Processor, float]]:
    """Return the processors of the list whose core is named there, with the log of its number."""
    with locate(LIST).open(encoding="utf-8", newline="") as stream:
        rows = [(row["cpu"], row["geekbench6_single_core"]) for row in csv.DictReader(stream)]
    known = [(known_processor(cpu), number) for cpu, number in rows if core_named(cpu) is not None]
    return [(cpu, float(np.log(float(number)))) for cpu, number in known if cpu is not None]


@cache
def listed() -> Mapping[str, float]:
    """Return the log of the list's number at 3 GHz by core: the median of its models."""
    of: dict[str, list[float]] = defaultdict(list)
    for processor, number in listed_models():
        of[processor.core].append(number - CLOCK_EXPONENT * np.log(processor.boost_hz / AT_HZ))
    return {core: float(np.median(v)) for core, v in of.items() if len(v) >= FEWEST_IN_LIST}


def gains() -> list[tuple[str, str, float, float]]:
    """Return (core, earlier core, log of the gain at one clock, its standard error)."""
    with GAINS.open(encoding="utf-8", newline="") as stream:
        return [
            (row["core"], row["of"], float(np.log(float(row["times"]))), float(row["deviation"]))
            for row in csv.DictReader(stream)
        ]


def solve(without: Collection[str] = ()) -> Solution:
    """Return the speeds of all cores without what was measured of the models ``without``."""
    names = tuple(cores())
    told = {processors()[model].core for model in measured() if model not in without}
    told |= set(listed()) | {name for gain in gains() for name in gain[:2]}
    place = {name: n for n, name in enumerate(names)}
    level, slope, offset = range(len(names), len(names) + 3)  # of the trend; of the list
    rows: list[Floats] = []
    right: list[float] = []

    def known(terms: Mapping[int, float], value: float, deviation: float) -> None:
        row = np.zeros(len(names) + 3)
        for index, weight in terms.items():
            row[index] = weight / deviation
        rows.append(row)
        right.append(value / deviation)

    known({slope: 1.0}, 0.07, 0.07)
    for core in cores().values():
        terms = {place[core.name]: 1.0, level: -1.0, slope: -(core.year - 2018.0)}
        known(terms, 0.0, LOOSE_DEVIATION if core.name in told else TREND_DEVIATION)
    for model, scores in measured().items():
        if model not in without:
            processor = processors()[model]
            faster = CLOCK_EXPONENT * np.log(processor.boost_hz / AT_HZ)
            value = float(np.log(scores).mean() - faster)
            known({place[processor.core]: 1.0}, value, MEASURED_DEVIATION)
    for name, value in listed().items():
        known({place[name]: 1.0, offset: 1.0}, value, LIST_DEVIATION)
    for name, of, value, deviation in gains():
        known({place[name]: 1.0, place[of]: -1.0}, value, deviation)
    matrix = np.array(rows)
    covariance = np.linalg.inv(matrix.T @ matrix)
    solution = covariance @ matrix.T @ np.array(right)
    return Solution(names, solution[: len(names)], np.sqrt(np.diag(covariance))[: len(names)])


@cache
def scores_without(*models: str) -> CoreScores:
    """Return what the catalogue would hold if nothing had been measured of ``models``."""
    solution = solve(models)
    return CoreScores(
        schema="berth.core-scores/1",
        source=(
            "single-threaded programs of SPEC CPU 2017 (10 integer, 13 floating-point), gcc -O3, "
            "one run of all alike by one person (public notes): geometric mean of speeds relative "
            "to EPYC 7742"
        ),
        measured=tuple(
            ScoredModel(name=name, integer=pair[0], floating_point=pair[1])
            for name, pair in measured().items()
            if name not in models
        ),
        cores=tuple(
            ScoredCore(
                name=name,
                speed=round(float(np.exp(log_speed)), 3),
                deviation=round(float(error), 3),
            )
            for name, log_speed, error in zip(
                solution.names, solution.log_speed, solution.deviation, strict=True
            )
        ),
    )
