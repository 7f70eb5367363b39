"""The bundle of the operator model: manifest, constants, one ensemble for each group (ONNX)."""

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
from berth.predictor.families.graph.operators.calls import Kind
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


class Group(StrEnum):
    """Kinds of operators that share an ensemble."""

    PRODUCTS = "products"
    CONVOLUTIONS = "convolutions"
    VECTORS = "vectors"


KINDS: Mapping[Group, tuple[Kind, ...]] = {
    Group.PRODUCTS: (Kind.PRODUCT, Kind.LINEAR),
    Group.CONVOLUTIONS: (Kind.CONVOLUTION,),
    Group.VECTORS: (Kind.UNARY, Kind.BINARY, Kind.SOFTMAX, Kind.NORMALISATION),
}


class Width(Document):
    """Ends of the 90 % interval as factors of the predicted time."""

    low: float = Field(gt=0, le=1)
    high: float = Field(ge=1)
    rows: int = Field(ge=1)
    gpus: int = Field(ge=1)


class OperatorConstants(Document):
    """``constants.json``: the power limit, launches and widths."""

    schema_: str = Field(default=CONSTANTS_SCHEMA, alias="schema")
    watts: Positive
    gamma: float = Field(ge=0)
    launch_s: dict[str, Positive]
    """Seconds of a launch, by operator as measured one at a time, on a GPU never seen."""
    widths: dict[Group, Width]
    """Widths of single operators on GPUs that were left out, one kind of silicon at a time."""
    model: Width
    """Width of whole language models in fp32 on GPUs that were left out."""
    half: Width
    """Width of image models, on GPUs and at a precision (half) never fitted."""


class OperatorsTraining(Training):
    """What the bundle was made of."""

    gpus: tuple[str, ...]
    rows: int


class OperatorsManifest(BundleManifest):
    """``manifest.json``."""

    schema_: str = Field(default=OPERATORS_SCHEMA, alias="schema")
    product_features: tuple[str, ...]
    vector_features: tuple[str, ...]
    training: OperatorsTraining


@dataclass(frozen=True, slots=True)
class Loaded:
    """A verified bundle."""

    id: str
    constants: OperatorConstants
    power: PowerLimit
    ensembles: Mapping[Group, onnxruntime.InferenceSession]


def file_of(group: Group) -> str:
    """Return the name of a group's ONNX."""
    return f"{group.value}.onnx"


def verify(folder: Path = DEFAULT_OPERATORS_BUNDLE) -> OperatorsManifest:
    """Return the manifest, after every checksum has been compared. Raises DocumentError."""
    manifest = read_manifest(folder, OperatorsManifest)
    check_complete(folder, manifest, (CONSTANTS, *(file_of(group) for group in Group)))
    features = (manifest.product_features, manifest.vector_features)
    check_features(
        folder,
        same=features == (PRODUCT_FEATURES, VECTOR_FEATURES),
        key="product_features",
        retrain="python -m lab operators --train",
    )
    return manifest


def load(folder: Path = DEFAULT_OPERATORS_BUNDLE) -> Loaded:
    """Verify and load. Raises DocumentError where anything about it is wrong."""
    manifest = verify(folder)
    constants = read_json(folder / CONSTANTS, OperatorConstants)
    if absent := sorted(set(Group) - constants.widths.keys()):
        raise DocumentError(folder / CONSTANTS, f"has no width for {absent[0]!r}", key="widths")
    return Loaded(
        manifest.id,
        constants,
        PowerLimit(constants.watts, constants.gamma),
        {group: open_model(folder / file_of(group)) for group in Group},
    )
