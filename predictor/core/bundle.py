"""Bundles: a manifest that names each file by checksum, and an id over them all.

The manifest's own ``id`` is the digest of all that predictions depend on; when it was made, by
which command and how good it is are not among them, so that the same data, seed and code give
the same id. A few learnt numbers that need no bundle are a ``LearntFile``: JSON beside the module
that uses them.
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
"""The folder of the bundles that come with Berth, one folder each."""
MANIFEST = "manifest.json"
CARD = "CARD.md"
_MAX_FILE_BYTES = 64 * 2**20
_LONGEST_NAME = 255


class BundleManifest(Document):
    """The fields of each ``manifest.json``, whatever its bundle predicts."""

    id: str
    created: str
    command: str
    berth_version: str
    figures: dict[str, float]
    """Figures of the nested evaluation; see the model card for the split."""
    files: dict[str, str]
    """File name -> SHA-256."""

    def digest(self) -> str:
        """Return what ``id`` must be: the digest of everything that a prediction depends on.

        Optional keys that are None do not count.
        """
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key in ("id", "created", "command", "figures"):
            del data[key]
        data["files"] = {k: v for k, v in self.files.items() if k != CARD}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return "berth-" + hashlib.sha256(text.encode()).hexdigest()[:16]


class Training(Document):
    """Data, seed and libraries that a bundle was made of."""

    sources: dict[str, str]
    """Data set -> SHA-256."""
    seed: int
    libraries: dict[str, str]


M = TypeVar("M", bound=BundleManifest)


def replaced(folder: Path) -> Path:
    """Return where the bundle ``folder`` lies while another takes its place."""
    return folder.parent / f".{folder.name}.old"


def read_manifest(folder: Path, model: type[M]) -> M:
    """Read the manifest and compare every checksum. Raises DocumentError."""
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
    """Return the schema that the manifest in ``folder`` names. Raises DocumentError."""
    schema = _manifest(folder).get("schema")
    if not isinstance(schema, str):
        raise DocumentError(folder / MANIFEST, "names no schema", key="schema")
    return schema


def id_of_bundle(folder: Path) -> str:
    """Return the id that the manifest in ``folder`` names; no file is checked.

    Raises DocumentError.
    """
    bundle_id = _manifest(folder).get("id")
    if not isinstance(bundle_id, str):
        raise DocumentError(folder / MANIFEST, "names no id", key="id")
    return bundle_id


def _manifest(folder: Path) -> dict[str, object]:
    """Read the manifest as it is written; empty where it is no table."""
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
    """Raise DocumentError where a needed file has no checksum or the id is not the digest."""
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
    """Raise DocumentError where the trained features are not the ``same`` as computed now."""
    if not same:
        raise DocumentError(
            folder / MANIFEST,
            "was trained on other features than this version of Berth computes",
            key=key,
            hint=f"run `{retrain}` with this version",
        )


def open_model(path: Path) -> onnxruntime.InferenceSession:
    """Open an ONNX model on one thread. Raises DocumentError where it cannot run."""
    import onnxruntime  # noqa: PLC0415 - who reads manifests needs none of it

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
    """Return [rows] predictions of an ONNX regressor with one output for [rows, features]."""
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


class LearntFile(Document):
    """The fields of every file of learnt numbers: how it was made, and how its intervals hold."""

    command: str
    created: str
    sources: dict[str, str]
    """Data set -> SHA-256."""
    split: str
    groups: int = Field(ge=1)
    """Groups of rows that resemble each other."""
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Coverage of the 90 % interval, in groups that nothing in the file is from."""
