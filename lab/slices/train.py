"""``python -m lab mig-slices --train``: the slice predictor's bundle from MISO and ParvaGPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from berth.pilot.documents import to_json
from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.core.provenance import made_by, versions
from berth.predictor.families.slices import bundle as bundles
from berth.predictor.families.slices.bundle import (
    LATENTS,
    NO_RESIDUAL,
    RESIDUAL,
    SLICES_SCHEMA,
    MethodEntry,
    SliceManifest,
    SliceTraining,
)
from berth.predictor.families.slices.equivalence import EQUIVALENCE, LAW
from berth.predictor.families.slices.latent import LATENT_SCHEMA, LatentFile
from berth.predictor.families.slices.physics import ShareLaw
from berth.predictor.families.slices.predictor import BATCHES, SWEEP
from berth.predictor.families.slices.sweep_model import RESIDUAL_FEATURES
from berth.predictor.learning.trees_onnx import check_agreement, to_onnx
from lab.datasets.mig import MISO, PARVAGPU
from lab.slices.card import card
from lab.slices.data import (
    Case,
    Rows,
    inference_cases,
    sweep_rows,
    training_cases,
)
from lab.slices.held_out import (
    Held,
    large_width,
    latent_left_out,
    mixed_held,
    rule_left_out,
    sweep_left_out,
    width,
)
from lab.slices.latent import FAMILIES, FamilySpec, fit_family
from lab.slices.sweep import SweepFit, effective, features_of, fit_shares, fit_sweep

LIBRARIES = ("numpy", "onnxmltools", "onnxruntime", "xgboost-cpu")
TIME = "time"
STEPS = 2 + len(FAMILIES)


def cases_of(spec: FamilySpec) -> tuple[Case, ...]:
    """What a family is trained on: ``time`` pools both data sets, counters only MISO has."""
    if spec.name != TIME:
        return training_cases()
    alone = tuple(c for c in inference_cases() if c.workload.processes == 1)
    return (*training_cases(), *alone)


def shares_without(model: str) -> ShareLaw:
    """Effective shares learnt without a model, also without its namesakes in ParvaGPU."""
    rows = sweep_rows()
    return fit_shares(rows.take(name for name in rows.names if not name.startswith(model)))


def train(
    folder: Path,
    *,
    seed: int,
    command: str,
    figures: Mapping[str, float],
    advance: Callable[[str], None] = lambda _: None,
) -> SliceManifest:
    """Train on both data sets and write the bundle. The same data and seed give the same id."""
    rows = sweep_rows()
    fitted = fit_sweep(rows, seed)
    advance(SWEEP)
    alone = sweep_rows(one_process=True)
    methods = [
        _entry(SWEEP, "ParvaGPU, 1 to 5 processes", sweep_left_out(fitted, rows)),
        batches_entry(fitted, alone),
    ]
    families = []
    for spec in FAMILIES:
        cases = cases_of(spec)
        families.append(fit_family(spec, cases, fitted.shares))
        data = "MISO and ParvaGPU, 1 process" if spec.name == TIME else "MISO"
        methods.append(_entry(spec.name, data, latent_left_out(spec, cases, shares_without)))
        advance(spec.name)
    files = {LATENTS: to_json(LatentFile(schema=LATENT_SCHEMA, families=tuple(families))).encode()}
    apart = 0.0
    if fitted.ensemble is not None:
        files[RESIDUAL] = to_onnx(fitted.ensemble, len(RESIDUAL_FEATURES))
        apart = check_agreement(
            files[RESIDUAL], fitted.ensemble, features_of(rows, effective(rows, fitted.shares))
        )
    manifest = SliceManifest(
        schema=SLICES_SCHEMA,
        **made_by(command, figures),
        gpus=("A100-40GB", "A100-80GB"),
        shares=fitted.shares,
        methods=tuple(methods),
        residual_features=RESIDUAL_FEATURES,
        training=SliceTraining(
            sources={d.path: d.sha256 for d in (MISO, PARVAGPU)},
            seed=seed,
            residual=NO_RESIDUAL if fitted.ensemble is None else fitted.choice.name,
            libraries=versions(LIBRARIES),
        ),
    )
    files[CARD] = card(manifest, apart).encode()
    written = write_bundle(folder, manifest, files, load=bundles.load)
    advance("bundle")
    return written


def _entry(name: str, data: str, held: list[Held]) -> MethodEntry:
    return MethodEntry(
        name=name,
        rows=len(held),
        models=len({h.model for h in held}),
        data=data,
        width=width(held),
        probed=width(held, probed=True),
        large=large_width(held),
    )


def batches_entry(fitted: SweepFit, alone: Rows) -> MethodEntry:
    """The law of one process and batch equivalence together; a probe moves the law alone."""
    law, rule = sweep_left_out(fitted, alone), rule_left_out(fitted, alone)
    entry = _entry(BATCHES, "ParvaGPU, 1 process", mixed_held(law, rule))
    return entry.model_copy(
        update={
            "probed": width(law, probed=True),
            "sources": {LAW: width(law), EQUIVALENCE: width(rule)},
        }
    )
