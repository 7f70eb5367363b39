"""Train a network of relative performance and write it as a bundle with its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import numpy as np

from berth.pilot.errors import BerthError
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.program.range_check import RANGE, RangeCheck
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import (
    ONNX,
    RELATIVE_SCHEMA,
    RelativeManifest,
    RelativeTraining,
    log_name,
)
from berth.predictor.families.relative.rows import Rows
from lab.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    TimesLearner,
    TimesModel,
    check_applications,
    check_rows,
    held_out,
)
from lab.relative.figures import vector_figures
from lab.relative.measurements import SiteInput
from lab.relative.widths import LEAST_APPLICATIONS, log_widths

TOLERANCE = 1e-4
"""Largest difference of log time between the trained model and the bundle as loaded."""


class AsOnnx(TimesModel, Protocol):
    """A fitted model that is stored as one ONNX file."""

    def onnx(self, rows: Rows) -> bytes:
        """Return the ONNX file from ``features`` [rows, counters + 1] to ``log_speedup`` [rows,
        platforms].

        The interface is that of ``families.relative.bundle``; agreement with the model is checked
        on ``rows``.
        """
        ...


class OnnxLearner(TimesLearner, Protocol):
    """A model type whose fitted models are stored in bundles."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the libraries whose versions the manifest records."""
        ...

    def fit(self, rows: Rows, seed: int) -> AsOnnx:
        """Return a model fitted to all rows."""
        ...


def steps(rows: Rows) -> int:
    """Return the number of times that ``train`` calls ``advance``."""
    return len(set(rows.applications)) + 2


def train(
    rows: Rows,
    folder: Path,
    *,
    sources: dict[str, str],
    seed: int,
    command: str,
    family: OnnxLearner,
    constants: Mapping[str, float] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> RelativeManifest:
    """Hold out each application for figures and widths, train on all rows, and write the bundle to
    ``folder``.

    ``constants``: counters with one value in all measurements, stored to recognise
    workloads with other values. With fewer than four applications the error on a new one cannot be
    estimated, and the bundle has no widths.

    The same rows and seed give the same id. Raises UsageError for rows that nothing
    can be learnt from, BerthError where the bundle and the trained model disagree.
    """
    check_rows(rows)
    check_applications(rows)
    log_held_out = held_out(rows, family, LEAVE_ONE_APPLICATION_OUT, seed=seed, advance=advance)
    fitted = family.fit(rows, seed)
    files = {ONNX: fitted.onnx(rows)}
    widths = None
    if len(set(rows.applications)) >= LEAST_APPLICATIONS:
        widths = log_widths(rows, log_held_out)
        names = [log_name(name) for name in rows.counters]
        check = RangeCheck.fit(names, rows.log_counters(), rows.applications)
        files[RANGE] = check.text().encode()
    advance()
    manifest = RelativeManifest(
        schema=RELATIVE_SCHEMA,
        **made_by(command, known_figures(asdict(vector_figures(rows, log_held_out)))),
        family=family.name,
        what=family.what,
        counters=rows.counters,
        platforms=rows.platforms,
        reference=rows.reference,
        constants=dict(constants) if constants else None,
        log_widths=widths,
        unmeasured=tuple(
            name
            for name, times in zip(rows.platforms, rows.log_seconds.T, strict=True)
            if not np.isfinite(times).any()
        )
        or None,
        training=RelativeTraining(
            sources=sources,
            rows=len(rows),
            applications=tuple(sorted(set(rows.applications))),
            seed=seed,
            libraries=versions(family.libraries),
        ),
    )
    written = write(folder, manifest, files, fitted, rows)
    advance()
    return written


def write(
    folder: Path,
    manifest: RelativeManifest,
    files: Mapping[str, bytes],
    fitted: TimesModel,
    rows: Rows,
) -> RelativeManifest:
    """Write the bundle, after checking that it predicts the same as ``fitted`` for ``rows`` once
    loaded.

    Where the predictions differ, nothing is left in ``folder`` and BerthError is raised.
    """

    def check(written: Path) -> None:
        apart = np.abs(_asked(bundles.load(written), rows) - _asked(fitted, rows)).max()
        if not apart <= TOLERANCE:
            raise BerthError(
                f"the written model differs from the trained one by {apart:.3g}; it was discarded"
            )

    return write_bundle(folder, manifest, {**files, CARD: card(manifest).encode()}, load=check)


def known_figures(of: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of merit that are finite; for example, the order of one target is
    undefined."""
    return {name: value for name, value in of.items() if math.isfinite(value)}


def _asked(model: TimesModel, rows: Rows) -> Floats:
    """Return log seconds predicted from the reference's time alone, ignoring the other times in
    ``rows``."""
    return model.log_seconds(rows.knowing())


def card(manifest: RelativeManifest) -> str:
    """Return the text of the model card (``CARD.md``) for a manifest."""
    training = manifest.training
    lines = [
        "# Model card: relative performance from counters",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        f"{manifest.family}: {manifest.what}.",
        "",
        f"Piloted on `{manifest.reference}`; predicts {', '.join(manifest.platforms)}.",
        f"Counters: {', '.join(manifest.counters)}.",
        "",
        "## Data",
        f"{training.rows} rows of {len(training.applications)} applications: "
        f"{', '.join(training.applications)}.",
        *(f"- `{path}` sha256 `{digest[:16]}`" for path, digest in training.sources.items()),
        "",
        "## Figures",
        "Leave-one-application-out, applications weigh the same (`python -m lab relative`",
        "has the other splits, the other families and what each figure means).",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()),
        "",
        "## Limits",
        f"- {len(training.applications)} applications: the figures move by several hundredths when",
        "  one of them is another.",
        "- A time on the reference is needed, and the counters of the same source.",
        f"- Seed {training.seed}; {', '.join(f'{k} {v}' for k, v in training.libraries.items())}.",
    ]
    return "\n".join(lines) + "\n"


def train_bundle(
    site: SiteInput,
    out: Path,
    seed: int,
    family: OnnxLearner,
    sources: Mapping[str, str] | None = None,
) -> str:
    """Train a bundle over the platforms of these rows; return what was made, and how far it can be
    trusted.

    ``sources``: checksums by data set (absent: of the rows themselves).
    """
    with step_bar("training", steps(site.rows)) as advance:
        manifest = train(
            site.rows, out, sources=dict(sources or {site.title: site.rows.digest()}), seed=seed,
            command=command_line(), family=family, constants=site.constants, advance=advance,
        )  # fmt: skip
    applications = len(manifest.training.applications)
    done = f"{manifest.id}: {manifest.training.rows} rows of {applications} applications"
    if manifest.log_widths is not None:
        return done
    return (
        f"{done}\n{applications} applications are too few to know how far it can be trusted: "
        "predictions will have no intervals and abstain"
    )
