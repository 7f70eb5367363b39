"""Every bundle that comes with Berth is whole, or it is refused with a sentence that names why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.core.bundle import MANIFEST, SHIPPED_BUNDLES, schema_of_bundle
from berth.predictor.core.family import FAMILIES

READERS = {
    schema: module
    for entry in FAMILIES.load_all().values()
    for schema, module in entry.bundle_readers.items()
}
FOLDERS = {path.parent.name: path.parent for path in sorted(SHIPPED_BUNDLES.glob(f"*/{MANIFEST}"))}
FILES = [
    (bundle, name)
    for bundle, folder in FOLDERS.items()
    for name in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
]


def loader(bundle: str) -> Callable[[Path], Any]:
    load: Callable[[Path], Any] = import_module(READERS[schema_of_bundle(FOLDERS[bundle])]).load
    return load


def copied(bundle: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS[bundle], tmp_path / "copy"))


@pytest.mark.parametrize(("bundle", "name"), FILES)
def test_a_changed_or_missing_file_is_named(bundle: str, name: str, tmp_path: Path) -> None:
    path = copied(bundle, tmp_path) / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DocumentError, match="checksum") as raised:
        loader(bundle)(path.parent)
    assert name in raised.value.message
    path.unlink()
    with pytest.raises(DocumentError, match="cannot be read") as raised:
        loader(bundle)(path.parent)
    assert name in raised.value.message


@pytest.mark.parametrize("bundle", FOLDERS)
def test_a_manifest_changed_by_hand_no_longer_fits_its_id(bundle: str, tmp_path: Path) -> None:
    path = copied(bundle, tmp_path) / MANIFEST
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "created": "2001-01-01", "command": "by hand"}))
    loader(bundle)(path.parent)  # when and how it was made are no part of the id
    data["training"]["seed"] += 1
    path.write_text(json.dumps(data))
    with pytest.raises(DocumentError, match="its own id"):
        loader(bundle)(path.parent)


@pytest.mark.parametrize("bundle", FOLDERS)
def test_a_bundle_of_another_kind_is_refused(bundle: str) -> None:
    other = next(folder for name, folder in FOLDERS.items() if name != bundle)
    with pytest.raises(DocumentError, match="schema"):
        loader(bundle)(other)
