"""Language models on TensorRT-LLM's tables and InferenceX: models and accelerators left out.

* Throughput at maximum load (TensorRT-LLM 0.17, 1.0, 1.2): every model left out in turn, all its
  precisions and versions with it; figures are of the rows of 1.0 and 1.2. Tau is over pairs of
  accelerators that served the same model with the same lengths and version.
* The ratio to the H100 of rows with the same version, model, lengths and number of GPUs.
* First and further tokens, and throughput, of DeepSeek-R1 (InferenceX): every accelerator left out
  in turn, with its rows in other data sets.

Baselines see the same parts. The widths whose coverage is given come from the other parts.
``python -m lab served-tables``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.physics import SATURATED, TPOT, TTFT
from berth.predictor.families.language_model.situation import LOAD, kind_of, load_of
from lab.datasets.llm_tables import INFERENCEX
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.ground.table import Flags
from lab.llm.cases import Cases, rows_of, table
from lab.llm.language_models import OURS, left_out
from lab.llm.situations import ACCELERATORS, MODELS, Held
from lab.llm.widths import coverage, nested_log_widths, shipped_widths

_HEADER = ("method", "rows", "median error", "mean error", "tau", "covered", "factor")
_H100 = "h100-sxm-80gb"
_FEW = 8.0
Predictions = Mapping[str, Floats]
"""Log seconds of all rows of a table, by method."""


def evaluate(options: Options) -> Report:
    """Return the tables of models left out, ratios, and accelerators left out."""
    sections, figures = [], {}
    known = shipped_widths()
    with step_bar("evaluating", 3) as advance:
        by_model, held = in_order(SATURATED, MODELS, options)
        advance()
        data = table(SATURATED)
        recent = np.array([version != "0.17" for version in data.versions])
        widths = nested_log_widths(held, MODELS, known[SATURATED])
        covered = coverage(held, widths, recent[held.row])
        title = "TensorRT-LLM 1.0 and 1.2, output tokens/s at maximum load. Split: unseen model"
        lines = {name: _line(data, log, recent, tau_of(data, log, recent))
                 for name, log in by_model.items()}  # fmt: skip
        sections.append(_section(title, lines, covered))
        sections.append(_by_service(data, held, widths, recent, title))
        sections.append(_ratios(data, by_model))
        served = {}
        for head in (TTFT, TPOT):
            served[head] = in_order(head, ACCELERATORS, options)
            advance()
    for head, name in ((TTFT, "first token"), (TPOT, "each further token")):
        data, (by_method, held) = table(head), served[head]
        own = rows_of(data, INFERENCEX.path)
        lines = {method: _line(data, log, own) for method, log in by_method.items()}
        title = f"InferenceX, {name}. Split: unseen accelerator"
        widths = nested_log_widths(held, ACCELERATORS, known[head])
        sections.append(_section(title, lines, coverage(held, widths, own[held.row])))
        every = np.full(len(data), True)
        title = f"{name[0].upper()}{name[1:]}, all data. Split: unseen accelerator"
        sections.append(_by_service(data, held, widths, every, title))
    first, further = (served[head][0] for head in (TTFT, TPOT))
    sections.append(_throughput(first, further))
    for section in sections:
        for row in section.rows:
            if row[0] == OURS:
                figures[f"{section.title}: median error"] = float(row[2].rstrip("%")) / 100
    return Report(
        "Language models on tables of 2025 and 2026",
        ("Errors are |predicted / measured - 1| of rates, or of times to a token.",),
        tuple(sections), {"seed": options.seed}, figures,
    )  # fmt: skip


def in_order(head: str, split: str, options: Options) -> tuple[dict[str, Floats], Held]:
    """Return the log seconds of every row of the head's table by method, each row predicted without
    its part of the split."""
    resume = Resume(options.unfinished)
    methods, held = left_out(head, split, options.seed, resume, with_baselines=True)
    places = np.argsort(held.row)
    return {name: values[places] for name, values in methods.items()}, held


def tau_of(data: Cases, log_seconds: Floats, rows: Flags) -> float:
    """Return Kendall's tau over pairs of accelerators that served the same model alike."""
    by_load: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for row in np.flatnonzero(rows).tolist():
        load = data.cases[row].load
        key = data.models[row], data.versions[row], load.input_tokens, load.output_tokens
        by_load[key].append(row)
    signs = [
        np.sign((log_seconds[a] - log_seconds[b]) * (data.log_seconds[a] - data.log_seconds[b]))
        for same in by_load.values()
        for a, b in combinations(same, 2)
        if data.accelerators[a] != data.accelerators[b]
    ]
    return float(np.mean(signs)) if signs else math.nan


def _line(data: Cases, log_seconds: Floats, rows: Flags, tau: float = math.nan) -> list[str]:
    sign = 1.0 if data.head in {TTFT, TPOT} else -1.0
    error = np.abs(np.expm1(sign * (log_seconds - data.log_seconds)[rows]))
    shown = "" if math.isnan(tau) else f"{tau:.3f}"
    return [str(int(rows.sum())), f"{np.median(error):.1%}", f"{error.mean():.1%}", shown]


def _section(
    title: str, lines: Mapping[str, list[str]], covered: tuple[float, float] | None
) -> Section:
    ours = ["", ""] if covered is None else [f"{covered[0]:.1%}", f"{covered[1]:.2f}"]
    return Section(
        title,
        _HEADER,
        [(n, *line, *(ours if n == OURS else ["", ""])) for n, line in lines.items()],
    )


def _ratios(data: Cases, by_method: Predictions) -> Section:
    """Return errors of the ratio to the H100 with the same version, model, lengths and GPUs."""
    pairs = ratio_pairs(data)
    rows = []
    for name, log in by_method.items():
        a, b = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
        own = log[a] - log[b]
        real = data.log_seconds[a] - data.log_seconds[b]
        error = np.abs(np.expm1(own - real))
        tau = float(np.mean(np.sign(own * real)))
        rows.append((name, str(len(pairs)), f"{np.median(error):.1%}", f"{error.mean():.1%}",
                     f"{tau:.3f}", "", ""))  # fmt: skip
    return Section(
        "TensorRT-LLM 0.17, 1.0 and 1.2, ratio to the H100. Split: unseen model", _HEADER, rows
    )


def ratio_pairs(data: Cases) -> list[tuple[int, int]]:
    """Return pairs of (row on another accelerator, row on an H100) of the same service."""
    by_service: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for row, case in enumerate(data.cases):
        load = case.load
        key = (data.models[row], data.versions[row], load.input_tokens, load.output_tokens,
               load.tensor_parallel, load.pipeline_parallel, load.data_parallel)  # fmt: skip
        by_service[key].append(row)
    return [
        (other, h100)
        for same in by_service.values()
        for h100 in same
        if data.accelerators[h100] == _H100
        for other in same
        if data.accelerators[other] != _H100
    ]


def _by_service(data: Cases, held: Held, widths: Floats, rows: Flags, title: str) -> Section:
    """Return error and coverage by accelerator, bits of the weights, load and kind of model."""
    services = np.array([
        (data.accelerators[row], f"{case.load.weight_bits:g}",
         "few" if load_of(case)[LOAD.index("sequences per GPU")] < _FEW else "many",
         kind_of(case.model))
        for row, case in enumerate(data.cases)
    ])[held.row]  # fmt: skip
    off = held.process - held.measured
    lines = []
    for service in np.unique(services[rows[held.row]], axis=0):
        own = rows[held.row] & (services == service).all(axis=1)
        covered = coverage(held, widths, own)
        shown = ("abstains", "") if covered is None else (f"{covered[0]:.0%}", f"{covered[1]:.2f}")
        error = np.median(np.abs(np.expm1(off[own])))
        lines.append((*service.tolist(), str(int(own.sum())), f"{error:.1%}", *shown))
    return Section(
        f"{title}. By service; few: under {_FEW:g} sequences per GPU",
        ("accelerator", "bits", "load", "model", "rows", "median error", "covered", "factor"),
        lines,
    )


def _throughput(first: Predictions, further: Predictions) -> Section:
    """Return errors of tokens a second under a closed load, from first and further tokens."""
    ttft, tpot = (table(head) for head in (TTFT, TPOT))
    a, b = (np.flatnonzero(rows_of(t, INFERENCEX.path)) for t in (ttft, tpot))
    steps = np.array([tpot.cases[row].load.output_tokens - 1 for row in b.tolist()])
    real = np.exp(ttft.log_seconds[a]) + steps * np.exp(tpot.log_seconds[b])
    lines = []
    for name in first:
        own = np.exp(first[name][a]) + steps * np.exp(further[name][b])
        error = np.abs(real / own - 1)
        lines.append((name, str(len(a)), f"{np.median(error):.1%}", f"{error.mean():.1%}", "", "",
                      ""))  # fmt: skip
    return Section("InferenceX, tokens/s. Split: unseen accelerator", _HEADER, lines)
