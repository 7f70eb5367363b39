"""``berth train --task relative-performance``: a bundle of the cost model with its figures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from berth.pilot.documents import MAX_KEYS, to_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.version import VERSION
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative import bundle as bundles
from berth.predictor.families.relative.bundle import (
    LAW,
    RELATIVE_SCHEMA,
    TRUST,
    Kind,
    RelativeManifest,
    RelativeTraining,
)
from berth.predictor.families.relative.law import LawModel
from berth.predictor.families.relative.law_file import law_file
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust_file import fit_range, trust_file
from berth.predictor.learning.relative.card import card
from berth.predictor.learning.relative.checks import check_applications, check_rows
from berth.predictor.learning.relative.family import Fitted, told
from berth.predictor.learning.relative.law import LawFamily
from berth.predictor.learning.relative.trust import LEAST_APPLICATIONS, fit_trust
from berth.predictor.learning.resume import Resume

LIBRARIES = ("numpy", "scipy")
TOLERANCE = 1e-4
"""Of log time, between the trainer's own output and the written bundle's."""
_OTHER_ITEMS = 5_000
"""In the law's document beside its points."""

ANY_KIND = LawFamily()
"""All platforms are of one kind."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A fitted model as files of a bundle."""

    kind: Kind
    files: dict[str, bytes]


def steps(rows: Rows) -> int:
    """How often ``train`` calls ``advance``."""
    return len(set(rows.applications)) + 2


def train(
    rows: Rows,
    folder: Path,
    *,
    sources: dict[str, str],
    seed: int,
    command: str,
    figures_of: Callable[[Rows, Floats], dict[str, float]],
    family: LawFamily = ANY_KIND,
    constants: Mapping[str, float] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> RelativeManifest:
    """Leave each application out for figures and trust, learn from all, write the bundle.

    ``family``: with the kinds of the rows' platforms. ``constants``: counters that
    the rows lack since they had one value everywhere; kept to tell what is unlike them. With fewer
    than four applications nothing is known of a fifth, and the bundle has no trust.

    Folds that were done are kept beside ``folder`` until the bundle stands, so that a run cut
    short goes on. The same rows and seed give the same id. Raises UsageError for rows that
    nothing can be learnt from, BerthError where the bundle says something else than the trainer.
    """
    check_rows(rows)
    check_applications(rows)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    kept = Resume(unfinished)
    found = np.full(rows.log_seconds.shape, np.nan)
    for name in sorted(set(rows.applications)):
        held = [i for i, application in enumerate(rows.applications) if application == name]
        found[held] = kept.array(
            _key(rows, family, name, seed), partial(_held_out, rows, family, held, seed)
        )
        advance()
    fitted = family.fit(rows, seed)
    _check_items(fitted)
    files = {LAW: to_json(law_file(fitted)).encode()}
    if len(set(rows.applications)) >= LEAST_APPLICATIONS:
        trust = trust_file(fit_trust(rows, found), fit_range(rows))
        files[TRUST] = to_json(trust).encode()
    exported = Exported("law", files)
    advance()
    manifest = RelativeManifest(
        schema=RELATIVE_SCHEMA,
        **made_by(command, figures_of(rows, found)),
        family=family.name,
        what=family.what,
        kind=exported.kind,
        counters=rows.counters,
        platforms=rows.platforms,
        reference=rows.reference,
        constants=dict(constants) if constants else None,
        training=RelativeTraining(
            sources=sources,
            rows=len(rows),
            applications=tuple(sorted(set(rows.applications))),
            seed=seed,
            libraries=versions(LIBRARIES),
        ),
    )
    written = write(folder, manifest, exported, fitted, rows)
    shutil.rmtree(unfinished, ignore_errors=True)
    advance()
    return written


def write(
    folder: Path, manifest: RelativeManifest, exported: Exported, fitted: Fitted, rows: Rows
) -> RelativeManifest:
    """The bundle, only if what it loads to says what ``fitted`` says of ``rows``.

    Nothing is left in ``folder`` where it does not. Raises BerthError.
    """

    def check(made: Path) -> None:
        apart = np.abs(_asked(bundles.load(made), rows) - _asked(fitted, rows)).max()
        if not apart <= TOLERANCE:
            raise BerthError(
                f"the written model differs from the trained one by {apart:.3g}; it was discarded"
            )

    files = {**exported.files, CARD: card(manifest).encode()}
    return write_bundle(folder, manifest, files, load=check)


def _check_items(fitted: LawModel) -> None:
    """Raises UsageError where the law would be a larger document than Berth reads."""
    count = 0
    for each in (fitted.residual, fitted.trend):
        arrays = (each.points, each.near, each.own, each.own_near)
        count += sum(a.size + a.size // a.shape[-1] for a in arrays) + 3 * len(each.points)
    if count > MAX_KEYS - _OTHER_ITEMS:
        raise UsageError(
            f"{len(fitted.residual.points)} workloads on {len(fitted.platforms)} platforms are "
            "more than a bundle of the law holds",
            hint="leave out platforms, or sizes that tell the same",
        )


def _held_out(rows: Rows, family: LawFamily, held: list[int], seed: int) -> Floats:
    others = sorted(set(range(len(rows))) - set(held))
    return _asked(family.fit(rows.take(others), seed), rows.take(held))


def _asked(model: Fitted, rows: Rows) -> Floats:
    return model.log_seconds(rows.knowing())


def _key(rows: Rows, family: LawFamily, application: str, seed: int) -> str:
    return "/".join([*told(family), VERSION, application, str(seed), rows.digest()])
