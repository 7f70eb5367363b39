"""Reading and verifying bundles: a manifest with a checksum of each file and an id of the whole.

The manifest's ``id`` is the digest of everything that predictions depend on. Creation time, command
and accuracy figures are left out of it, so that the same data, seed and code give the same id. A
few learnt numbers that need no bundle are a ``LearntFile``: a JSON file beside the module that uses
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats

if TYPE_CHECKING:
    import onnxruntime
from pydantic import Field

SHIPPED_BUNDLES = Path(__file__).parents[1] / "bundles"
"""Folder of the bundles that are shipped with Berth, one folder each."""
MANIFEST = "manifest.json"
CARD = "CARD.md"
_MAX_FILE_BYTES = 64 * 2**20
_LONGEST_NAME = 255


class BundleManifest(Document):
    """The fields that every ``manifest.json`` has, whatever its bundle predicts."""

    id: str
    created: str
    command: str
    berth_version: str
    figures: dict[str, float]
    """Accuracy figures of the nested evaluation by name; the model card says how data was split."""
    files: dict[str, str]
    """SHA-256 by file name."""

    def digest(self) -> str:
        """Return the digest of everything that a prediction depends on, which ``id`` must equal.

        Optional keys that are None are left out.
        """
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key in ("id", "created", "command", "figures"):
            del data[key]
        data["files"] = {k: v for k, v in self.files.items() if k != CARD}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return "berth-" + hashlib.sha256(text.encode()).hexdigest()[:16]


class Training(Document):
    """Data, seed and library versions that a bundle was trained with."""

    sources: dict[str, str]
    """SHA-256 by data set."""
    seed: int
    libraries: dict[str, str]
    """Version by library."""


M = TypeVar("M", bound=BundleManifest)


def replaced(folder: Path) -> Path:
    """Return the path to which a bundle folder is renamed while a new bundle is put in its
    place."""
    return folder.parent / f".{folder.name}.old"


def read_manifest(folder: Path, model: type[M]) -> M:
    """Return the manifest of a bundle folder after comparing the checksum of every file.

    Raises DocumentError where a file is missing, unreadable or differs.
    """
    if not folder.is_dir():
        old = replaced(folder)
        raise DocumentError(
            folder,
            "is not a bundle folder",
            hint=f"replacing it was cut short: `mv {old} {folder}` brings the older one back"
            if (old / MANIFEST).is_file()
            else "`berth train` makes one",
        )
    manifest = read_json(folder / MANIFEST, model)
    for name, expected in manifest.files.items():
        if len(name) > _LONGEST_NAME:
            raise DocumentError(
                folder / MANIFEST, f"names a file of {len(name)} characters", key="files"
            )
        if Path(name).name != name:
            raise DocumentError(folder / MANIFEST, f"names a file elsewhere: {name!r}", key="files")
        if _sha256(folder / name) != expected:
            raise DocumentError(
                folder / name,
                "is not the file that the manifest names (its checksum differs)",
                hint="the bundle was changed or damaged: install it again or run `berth train`",
            )
    return manifest


def schema_of_bundle(folder: Path) -> str:
    """Return the schema that the manifest in ``folder`` names.

    Raises DocumentError where there is none.
    """
    schema = _manifest(folder).get("schema")
    if not isinstance(schema, str):
        raise DocumentError(folder / MANIFEST, "names no schema", key="schema")
    return schema


def id_of_bundle(folder: Path) -> str:
    """Return the id that the manifest in ``folder`` names, without checking any file.

    Raises DocumentError where there is none.
    """
    bundle_id = _manifest(folder).get("id")
    if not isinstance(bundle_id, str):
        raise DocumentError(folder / MANIFEST, "names no id", key="id")
    return bundle_id


def _manifest(folder: Path) -> dict[str, object]:
    """Return the manifest's JSON object without validation; empty where the JSON is not an object.

    Raises DocumentError where the file is missing or not JSON.
    """
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_bytes()[:_MAX_FILE_BYTES])
    except OSError as error:
        raise DocumentError(
            folder, f"is not a bundle folder ({MANIFEST}: {error.strerror})"
        ) from None
    except (ValueError, RecursionError):
        raise DocumentError(path, "is not JSON") from None
    return data if isinstance(data, dict) else {}


def check_complete(folder: Path, manifest: BundleManifest, needed: Iterable[str]) -> None:
    """Raise DocumentError where a needed file has no checksum, or the manifest's id is not the
    digest of its content."""
    if absent := sorted(set(needed) - manifest.files.keys()):
        raise DocumentError(folder / MANIFEST, f"has no checksum for {absent[0]}", key="files")
    if manifest.digest() != manifest.id:
        raise DocumentError(
            folder / MANIFEST,
            "does not match its own id: it was changed after it was written",
            key="id",
            hint="install the bundle again or run `berth train`",
        )


def check_features(folder: Path, *, same: bool, key: str, retrain: str = "berth train") -> None:
    """Raise DocumentError unless ``same``: the bundle was trained on other input features than this
    version computes.

    ``retrain``: the command that the error's hint names.
    """
    if not same:
        raise DocumentError(
            folder / MANIFEST,
            "was trained on other features than this version of Berth computes",
            key=key,
            hint=f"run `{retrain}` with this version",
        )


def open_model(path: Path) -> onnxruntime.InferenceSession:
    """Return a one-thread session of an ONNX model.

    Raises DocumentError where the model cannot run.
    """
    import onnxruntime  # noqa: PLC0415 - reading manifests does not need onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime raises a dozen classes of its own
        raise DocumentError(path, f"is not a model that can run: {error}") from None


def regressed(model: onnxruntime.InferenceSession, rows: NDArray[np.floating]) -> Floats:
    """Return [rows] predictions of a one-output ONNX regressor for ``rows`` [rows, features]."""
    (asked,) = model.get_inputs()
    inputs = rows.astype(np.float64 if asked.type == "tensor(double)" else np.float32, copy=False)
    return np.asarray(model.run(None, {asked.name: inputs})[0], np.float64).reshape(-1)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise DocumentError(path, f"is larger than {_MAX_FILE_BYTES} bytes")
    return hashlib.sha256(raw).hexdigest()


class LogWidth(Document):
    """Half width of the 90 % interval in log time, or a part of it, from rows held out of every
    fit."""

    log_width: float = Field(ge=0)
    rows: int = Field(ge=1)
    groups: int | None = Field(default=None, ge=1)
    """Number of groups that were held out one after another; None: not counted."""
    split: str


class LearntFile(Document):
    """The fields of every file of learnt numbers: its origin, and the coverage of its intervals."""

    command: str
    created: str
    sources: dict[str, str]
    """SHA-256 by data set."""
    split: str
    groups: int = Field(ge=1)
    """Number of groups of similar rows (for example, of one model) in the data."""
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Share of held-out times inside the 90 % interval, in groups that nothing in the file was
    fitted on."""
