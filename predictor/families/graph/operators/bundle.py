"""Read the bundle of the operator model: manifest, constants, and one tree ensemble (ONNX) for each
group of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
from berth.pilot.profile import Positive
from berth.predictor.core.bundle import (
    SHIPPED_BUNDLES,
    BundleManifest,
    Training,
    check_complete,
    check_features,
    open_model,
    read_manifest,
)
from berth.predictor.families.graph.operators.calls import CallKind
from berth.predictor.families.graph.operators.physics import (
    PRODUCT_FEATURES,
    VECTOR_FEATURES,
    PowerLimit,
)

if TYPE_CHECKING:
    import onnxruntime

OPERATORS_SCHEMA = "berth.operators-bundle/1"
CONSTANTS_SCHEMA = "berth.operator-constants/1"
CONSTANTS = "constants.json"
DEFAULT_OPERATORS_BUNDLE = SHIPPED_BUNDLES / "operators"


class OperatorGroup(StrEnum):
    """Groups of operators; each group has one tree ensemble."""

    PRODUCTS = "products"
    CONVOLUTIONS = "convolutions"
    VECTORS = "vectors"


KINDS: Mapping[OperatorGroup, tuple[CallKind, ...]] = {
    OperatorGroup.PRODUCTS: (CallKind.PRODUCT, CallKind.LINEAR),
    OperatorGroup.CONVOLUTIONS: (CallKind.CONVOLUTION,),
    OperatorGroup.VECTORS: (
        CallKind.UNARY,
        CallKind.BINARY,
        CallKind.SOFTMAX,
        CallKind.NORMALISATION,
    ),
}


class IntervalFactors(Document):
    """Ends of a 90 % interval as factors of the predicted time, with the number of rows and GPUs
    that they were calibrated on."""

    low: float = Field(gt=0, le=1)
    high: float = Field(ge=1)
    rows: int = Field(ge=1)
    gpus: int = Field(ge=1)


class OperatorConstants(Document):
    """Contents of ``constants.json``: the power limit, launch times and interval widths."""

    schema_: str = Field(default=CONSTANTS_SCHEMA, alias="schema")
    watts: Positive
    gamma: float = Field(ge=0)
    launch_s: dict[str, Positive]
    """Seconds of one launch on an unmeasured GPU, by operator, when operators run one at a time."""
    widths: dict[OperatorGroup, IntervalFactors]
    """Interval widths for single operators on held-out GPUs (each chip model held out in turn)."""
    model: IntervalFactors
    """Interval width for whole language models in fp32 on held-out GPUs."""
    half: IntervalFactors
    """Interval width for image models in half precision; neither these GPUs nor half precision were
    fitted."""


class OperatorsTraining(Training):
    """Training data of the bundle: GPUs and number of rows."""

    gpus: tuple[str, ...]
    rows: int


class OperatorsManifest(BundleManifest):
    """Contents of ``manifest.json`` of an operator bundle."""

    schema_: str = Field(default=OPERATORS_SCHEMA, alias="schema")
    product_features: tuple[str, ...]
    vector_features: tuple[str, ...]
    training: OperatorsTraining


@dataclass(frozen=True, slots=True)
class Loaded:
    """An operator bundle after verification, ready to predict."""

    id: str
    constants: OperatorConstants
    power: PowerLimit
    ensembles: Mapping[OperatorGroup, onnxruntime.InferenceSession]


def file_of(group: OperatorGroup) -> str:
    """Return the file name of a group's tree ensemble (ONNX)."""
    return f"{group.value}.onnx"


def verify(folder: Path = DEFAULT_OPERATORS_BUNDLE) -> OperatorsManifest:
    """Return the manifest of an operator bundle after all checksums match. Raises DocumentError."""
    manifest = read_manifest(folder, OperatorsManifest)
    check_complete(folder, manifest, (CONSTANTS, *(file_of(group) for group in OperatorGroup)))
    features = (manifest.product_features, manifest.vector_features)
    check_features(
        folder,
        same=features == (PRODUCT_FEATURES, VECTOR_FEATURES),
        key="product_features",
        retrain="python -m lab operators --train",
    )
    return manifest


def load(folder: Path = DEFAULT_OPERATORS_BUNDLE) -> Loaded:
    """Return the verified operator bundle in ``folder``. Raises DocumentError for a broken
    bundle."""
    manifest = verify(folder)
    constants = read_json(folder / CONSTANTS, OperatorConstants)
    if absent := sorted(set(OperatorGroup) - constants.widths.keys()):
        raise DocumentError(folder / CONSTANTS, f"has no width for {absent[0]!r}", key="widths")
    return Loaded(
        manifest.id,
        constants,
        PowerLimit(constants.watts, constants.gamma),
        {group: open_model(folder / file_of(group)) for group in OperatorGroup},
    )
