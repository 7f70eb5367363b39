"""Writing a bundle: complete or not at all, with its origin recorded, and only if it can be loaded
again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, TypeVar

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.pilot.version import VERSION
from berth.predictor.core.bundle import MANIFEST, BundleManifest, replaced


class ManifestFields(TypedDict):
    """The fields of a ``BundleManifest``; ``write_bundle`` fills in ``id`` and ``files``."""

    id: str
    created: str
    command: str
    berth_version: str
    figures: dict[str, float]
    files: dict[str, str]


def made_by(command: str, figures: Mapping[str, float] | None = None) -> ManifestFields:
    """Return manifest fields for a bundle that is created now by ``command``.

    ``figures``: accuracy figures of the evaluation, by name.
    """
    return ManifestFields(
        id="",
        created=now(),
        command=command,
        berth_version=VERSION,
        figures=dict(figures or {}),
        files={},
    )


def now() -> str:
    """Return the present UTC time to the second as ISO 8601 text, the format of manifests."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the installed version of each library that training used."""
    return {name: importlib.metadata.version(name) for name in libraries}


M = TypeVar("M", bound=BundleManifest)


def write_bundle(
    folder: Path,
    manifest: M,
    files: Mapping[str, bytes],
    load: Callable[[Path], object],
) -> M:
    """Write ``files`` and the manifest, completed with id and checksums, to ``folder``; return the
    manifest.

    The bundle is written beside ``folder``, checked by ``load`` and then renamed. An older bundle
    is replaced; where the replacement was interrupted, the older bundle is restored. Raises
    UsageError where ``folder`` exists and is not a bundle.
    """
    old = replaced(folder)
    _recover(folder, old)
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise UsageError(
            f"{folder} exists and is not a bundle", hint="name a new folder or an old bundle"
        )
    sums = {name: hashlib.sha256(raw).hexdigest() for name, raw in sorted(files.items())}
    filled = manifest.model_copy(update={"files": sums})
    filled = filled.model_copy(update={"id": filled.digest()})
    folder.parent.mkdir(parents=True, exist_ok=True)
    unplaced = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, raw in files.items():
            (unplaced / name).write_bytes(raw)
        (unplaced / MANIFEST).write_text(to_json(filled), encoding="utf-8")
        load(unplaced)
        unplaced.chmod(0o755)
        if folder.exists():
            folder.rename(old)
        unplaced.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        _recover(folder, old)
        shutil.rmtree(unplaced, ignore_errors=True)
        raise
    return filled


def _recover(folder: Path, old: Path) -> None:
    """Restore the old bundle after an interrupted replacement, or delete it after a finished
    one."""
    if (folder / MANIFEST).is_file():
        shutil.rmtree(old, ignore_errors=True)
    elif (old / MANIFEST).is_file() and not folder.exists():
        old.rename(folder)
