"""``berth train --task relative-performance``: train the cost model and write it as a bundle with
its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from berth.pilot.documents import MAX_KEYS, to_json
from berth.pilot.errors import BerthError, UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.program.bundle import RANGE, write_range
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import (
    MODEL_FILE,
    ONNX,
    RELATIVE_SCHEMA,
    ModelKind,
    RelativeManifest,
    RelativeTraining,
    TimesModel,
    log_name,
)
from berth.predictor.families.relative.cost_model import CostModel, cost_model_file
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.cost_model_family import CostModelFamily
from berth.predictor.learning.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    TimesLearner,
    check_applications,
    check_rows,
    held_out,
)
from berth.predictor.learning.relative.figures import MeanSpeedup, vector_figures
from berth.predictor.learning.relative.widths import LEAST_APPLICATIONS, log_widths

LIBRARIES = ("numpy", "scipy")
"""Libraries whose versions the manifest records."""
TOLERANCE = 1e-4
"""Largest difference of log time between the trained model and the bundle as loaded."""
_OTHER_ITEMS = 5_000
"""Number of items in the cost model's document that are not of its training points."""
ANY_KIND = CostModelFamily()
"""The cost model with all platforms of one kind."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A fitted model as files of a bundle, by name."""

    kind: ModelKind
    files: dict[str, bytes]


@runtime_checkable
class AsOnnx(Protocol):
    """A fitted model that is stored as one ONNX file."""

    def onnx(self, rows: Rows) -> bytes:
        """Return the ONNX file from ``features`` [rows, counters + 1] to ``log_speedup`` [rows,
        platforms].

        The interface is that of ``families.relative.bundle``; agreement with the model is checked
        on ``rows``.
        """
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
    family: TimesLearner = ANY_KIND,
    constants: Mapping[str, float] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> RelativeManifest:
    """Hold out each application for figures and widths, train on all rows, and write the bundle to
    ``folder``.

    ``family``: the cost model with the kinds of the rows' platforms, or a family whose fitted model
    is ``AsOnnx``. ``constants``: counters with one value in all measurements, stored to recognise
    workloads with other values. With fewer than four applications the error on a new one cannot be
    estimated, and the bundle has no widths.

    The same rows and seed give the same id. Raises UsageError for rows that nothing
    can be learnt from, BerthError where the bundle and the trained model disagree.
    """
    check_rows(rows)
    check_applications(rows)
    log_held_out = held_out(rows, family, LEAVE_ONE_APPLICATION_OUT, seed=seed, advance=advance)
    fitted = family.fit(rows, seed)
    exported = _exported(fitted, rows)
    widths = None
    if len(set(rows.applications)) >= LEAST_APPLICATIONS:
        widths = log_widths(rows, log_held_out)
        names = [log_name(name) for name in rows.counters]
        check = RangeCheck.fit(names, rows.log_counters(), rows.applications)
        exported.files[RANGE] = write_range(check).encode()
    advance()
    manifest = RelativeManifest(
        schema=RELATIVE_SCHEMA,
        **made_by(command, known_figures(asdict(vector_figures(rows, log_held_out)))),
        family=family.name,
        what=family.what,
        kind=exported.kind,
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
            libraries=versions(getattr(family, "libraries", LIBRARIES)),
        ),
    )
    written = write(folder, manifest, exported, fitted, rows)
    advance()
    return written


def write(
    folder: Path, manifest: RelativeManifest, exported: Exported, fitted: TimesModel, rows: Rows
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

    files = {**exported.files, CARD: card(manifest).encode()}
    return write_bundle(folder, manifest, files, load=check)


def baseline_figures(rows: Rows, seed: int) -> dict[str, float]:
    """Return the figures of merit of the platform that is best on average, with each application
    left out in turn."""
    log_held_out = held_out(rows, MeanSpeedup(), LEAVE_ONE_APPLICATION_OUT, seed=seed)
    return known_figures(asdict(vector_figures(rows, log_held_out)))


def _exported(fitted: TimesModel, rows: Rows) -> Exported:
    if isinstance(fitted, CostModel):
        _check_items(fitted)
        return Exported("cost-model", {MODEL_FILE: to_json(cost_model_file(fitted)).encode()})
    if isinstance(fitted, AsOnnx):
        return Exported("onnx", {ONNX: fitted.onnx(rows)})
    raise TypeError(f"{type(fitted).__name__} has no form in a bundle")


def _check_items(fitted: CostModel) -> None:
    """Raise UsageError where the cost model would be a larger document than Berth reads."""
    count = 0
    for each in (fitted.residual, fitted.trend):
        arrays = (each.points, each.near, each.own, each.own_near)
        count += sum(a.size + a.size // a.shape[-1] for a in arrays) + 3 * len(each.points)
    if count > MAX_KEYS - _OTHER_ITEMS:
        raise UsageError(
            f"{len(fitted.residual.points)} workloads on {len(fitted.platforms)} platforms are "
            "more than a bundle of the cost model holds",
            hint="leave out platforms, or sizes that tell the same",
        )


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
        "- Constants of the cost model and its Gaussian processes were set by hand, looking at",
        "  AIWC's applications.",
        "- A time on the reference is needed, and the counters of the same source.",
        f"- Seed {training.seed}; {', '.join(f'{k} {v}' for k, v in training.libraries.items())}.",
    ]
    return "\n".join(lines) + "\n"
