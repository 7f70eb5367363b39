"""xAMM: the paper's ablations with tables and pictures, or what one configuration file asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.cli.train.command import of_relative, train_relative
from berth.plugin.cli.train.training_input import SiteInput, command_line
from berth.predictor.learning.resume import Resume
from lab.datasets import aiwc
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.published.xamm import pictures
from lab.published.xamm.ablation import Found, Score, ablate, steps
from lab.published.xamm.choices import Choices, Embedding, Machines
from lab.published.xamm.config import read_config
from lab.published.xamm.family import XammFamily
from lab.published.xamm.plan import (
    ATTENTION,
    EXPERIMENTS,
    NAMED,
    NEW_TARGET,
    PLAIN,
    SCENARIOS,
    label,
    tried,
)
from lab.published.xamm.steps import run, training_rows
from lab.relative.data import aiwc_rows

SPLIT = (
    "leave-one-application-out (applications weigh the same), anchor kernels in no test; "
    "errors of the runtime ratio t_target / t_source; mean over seeds [least, greatest]"
)
HEADER = ("scenario", "way", "MAPE", "median error", "R2 (log)")
BLIND, BY_NAME = Choices(machines=Machines.NONE), Choices(machines=Machines.NAMES)
RAW_AMM = Choices(embedding=Embedding.RAW)
CLAIMS: tuple[tuple[str, Choices, Choices], ...] = (
    ("attention against raw counters, machines unknown to both", PLAIN, BLIND),
    ("attention against raw counters, machines known by name to both", NAMED, BY_NAME),
    ("AMM against nothing, raw counters", PLAIN, RAW_AMM),
    ("AMM against names, raw counters", NAMED, RAW_AMM),
    ("AMM against nothing, attention", BLIND, ATTENTION),
    ("attention + AMM against raw", PLAIN, ATTENTION),
    ("attention + AMM against raw + names", NAMED, ATTENTION),
)


def train(options: Options) -> str:
    """A bundle that `berth predict` serves: of the configuration's runs, or of AIWC's."""
    if options.config is None:
        public = SiteInput(aiwc_rows(), aiwc.AIWC.title, dict(aiwc.KINDS), {})
        source = {aiwc.AIWC.path: aiwc.AIWC.sha256}
        return of_relative(
            train_relative(public, options.bundle, options.seed, source, XammFamily())
        )
    config = read_config(options.config)
    rows, family = training_rows(config, options.config.parent)
    site = SiteInput(rows, str(config.app_train_data), {}, {})
    return of_relative(train_relative(site, options.bundle, config.seed, family=family))


def evaluate(options: Options) -> Report:
    """Every ablation on the AIWC data set, or what ``config`` asks for."""
    if options.config is not None:
        return _by_config(options.config)
    seeds, rows = options.every_seed, aiwc_rows()
    scenarios = (*SCENARIOS, NEW_TARGET)
    with step_bar("ablations", steps(rows, seeds) * len(scenarios)) as advance:
        resume = Resume(options.unfinished)
        found = [ablate(rows, s, seeds=seeds, resume=resume, advance=advance) for s in scenarios]
    names: list[str] = []
    parted: list[tuple[str, ...]] = []
    if options.report is not None:
        names = pictures.bars(found, options.report)
        picture, parted = pictures.embeddings(rows, seeds[0], options.report)
        names.append(picture)
    return report_of(found, seeds, names, parted)


def report_of(
    all_found: Sequence[Found],
    seeds: Sequence[int],
    names: Sequence[str] = (),
    parted: Sequence[Sequence[str]] = (),
) -> Report:
    """``names``: of pictures; ``parted``: rows of ``pictures.embeddings``."""
    seen = [f for f in all_found if not f.scenario.unseen_target]
    sections = [
        Section(
            f"Claim: {claim}",
            ("scenario", "MAPE", "median error"),
            [row for f in all_found if (row := verdict(f, before, after)) is not None],
        )
        for claim, before, after in CLAIMS
    ]
    sections += [
        Section(
            f"{one.name}: {one.question}",
            HEADER,
            [row for f in seen for row in _rows(f, one.choices)],
        )
        for one in EXPERIMENTS
    ]
    sections += [
        Section(
            "5. A target never trained on: only its signature is known",
            HEADER,
            _rows(f, tried(f.scenario)),
        )
        for f in all_found
        if f.scenario.unseen_target
    ]
    if parted:
        title = "Do embeddings part the machines? Silhouettes; learnt on all rows, so not a test"
        sections.append(Section(title, ("embedding", "by machine", "by application"), parted))
    return Report(
        "xAMM: what attention and machine models bring",
        (
            f"Split: {SPLIT} ({', '.join(map(str, seeds))}).",
            "Claims: relative change of the error on the same folds, below 0: less error; a change "
            "within the spread over seeds is no change.",
            *(
                f"{f.scenario.name}: {f.samples} held-out (workload, source, target) from "
                f"{', '.join(f.scenario.sources)}."
                for f in all_found
            ),
        ),
        tuple(sections),
        {
            "split": SPLIT,
            "seeds": list(seeds),
            "rows": [
                {"scenario": f.scenario.name, "way": label(s.choices), "samples": f.samples,
                 "mape": s.mape, "median_error": s.median_error, "r2_log": s.r2_log}
                for f in all_found
                for s in f.scores
            ],
        },
        after=tuple(f"![{name}]({name})" for name in names),
    )  # fmt: skip


def verdict(found: Found, before: Choices, after: Choices) -> tuple[str, ...] | None:
    """Change of MAPE and of the median error, seed by seed; None where one was not tried."""
    if not {before, after} <= set(tried(found.scenario)):
        return None
    old, new = found.score(before), found.score(after)
    return (found.scenario.name, *(_change(old, new, name) for name in ("mape", "median_error")))


def _rows(found: Found, ways: Sequence[Choices]) -> list[tuple[str, ...]]:
    return [
        (found.scenario.name, label(way), _spread(score.mape), _spread(score.median_error),
         _spread(score.r2_log, "{:.2f}"))
        for way in ways
        for score in [found.score(way)]
    ]  # fmt: skip


def _spread(values: Sequence[float], form: str = "{:.0%}") -> str:
    mean, low, high = (form.format(v) for v in (np.mean(values), min(values), max(values)))
    return f"{mean} [{low}, {high}]"


def _change(old: Score, new: Score, figure: str) -> str:
    before, after = np.array(getattr(old, figure)), np.array(getattr(new, figure))
    change = after / before - 1
    better = int((change < 0).sum())
    how = {0: "worse in all seeds", len(change): "better in all seeds"}.get(
        better, f"better in {better} of {len(change)} seeds"
    )
    return f"{change.mean():+.0%} [{change.min():+.0%}, {change.max():+.0%}], {how}"


def _by_config(file: Path) -> Report:
    """Do what the file asks for: amm, train, test; it trains where no model is given."""
    done = run(read_config(file), file.parent, command_line())
    tested = [
        (t.target, str(t.predictions), "yes" if t.with_machines else "no",
         f"{np.mean(list(t.mape.values())):.1%}" if t.mape else "no times")
        for t in done.tested
    ]  # fmt: skip
    header = ("target", "predictions", "with AMM", "MAPE (applications averaged)")
    written = [str(path) for path in done.written]
    return Report(
        "xAMM by one configuration file",
        tuple(f"wrote {path}" for path in written),
        (Section("Tested", header, tested),) if tested else (),
        {
            "trained": None if done.trained is None else done.trained.id,
            "machines": done.machines,
            "tested": done.tested,
            "written": written,
        },
    )
