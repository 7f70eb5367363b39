"""A bundle is whole or it is refused, with a sentence that names the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.core.bundle import MANIFEST
from berth.predictor.core.bundle_writing import write_bundle
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.bundle import RANGE, Manifest


@pytest.fixture
def copy(toy_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_bundle, tmp_path / "copy"))


def edit(folder: Path, **changes: object) -> None:
    data = json.loads((folder / MANIFEST).read_text())
    data.update(changes)
    (folder / MANIFEST).write_text(json.dumps(data))


def test_a_newer_schema_is_named_as_such(copy: Path) -> None:
    edit(copy, schema="berth.bundle/2")
    with pytest.raises(DocumentError, match="newer Berth"):
        bundles.load(copy)


def test_a_file_outside_the_folder_is_refused(copy: Path) -> None:
    edit(copy, files={"../../etc/passwd": "0" * 64})
    with pytest.raises(DocumentError, match="elsewhere"):
        bundles.load(copy)


def test_a_name_that_no_file_has_is_refused_in_a_short_sentence(copy: Path) -> None:
    edit(copy, files={"x" * 3000: "0" * 64})
    with pytest.raises(DocumentError, match="a file of 3000 characters") as refused:
        bundles.load(copy)
    assert len(str(refused.value)) < 300


def test_a_file_without_checksum_is_refused(copy: Path) -> None:
    data = json.loads((copy / MANIFEST).read_text())
    edit(copy, files={k: v for k, v in data["files"].items() if k != RANGE})
    with pytest.raises(DocumentError, match="no checksum"):
        bundles.load(copy)


def test_other_features_are_refused(copy: Path) -> None:
    data = Manifest.model_validate_json((copy / MANIFEST).read_text())
    changed = data.model_copy(update={"features": ("one",)})
    edit(copy, features=["one"], id=changed.digest())
    with pytest.raises(DocumentError, match="other features"):
        bundles.load(copy)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 100])
def test_a_model_that_cannot_run_is_refused_and_nothing_is_left(
    toy_bundle: Path, tmp_path: Path, content: bytes
) -> None:
    manifest = bundles.verify(toy_bundle)
    files = {name: (toy_bundle / name).read_bytes() for name in manifest.files}
    files["residual-quartz.onnx"] = content
    with pytest.raises(DocumentError, match="residual-quartz"):
        write_bundle(tmp_path / "new", manifest, files, bundles.load)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_bundle_is_never_overwritten(toy_bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "thesis.tex").write_text("irreplaceable")
    manifest = bundles.verify(toy_bundle)
    files = {name: (toy_bundle / name).read_bytes() for name in manifest.files}
    with pytest.raises(UsageError, match="not a bundle"):
        write_bundle(target, manifest, files, bundles.load)
    assert (target / "thesis.tex").read_text() == "irreplaceable"


def test_an_old_bundle_is_replaced_whole(toy_bundle: Path, copy: Path) -> None:
    manifest = bundles.verify(toy_bundle)
    (copy / "leftover").write_text("x")
    files = {name: (toy_bundle / name).read_bytes() for name in manifest.files}
    assert write_bundle(copy, manifest, files, bundles.load).id == manifest.id
    assert sorted(p.name for p in copy.iterdir()) == sorted([*manifest.files, MANIFEST])
    assert [p.name for p in copy.parent.iterdir()] == [copy.name]


def test_a_bundle_whose_replacement_was_killed_halfway_is_said_and_comes_back(
    toy_bundle: Path, copy: Path
) -> None:
    old = copy.with_name(f".{copy.name}.old")
    copy.rename(old)  # all that a SIGKILL between the two renames leaves
    with pytest.raises(DocumentError) as raised:
        bundles.load(copy)
    assert raised.value.hint is not None
    assert f"mv {old} {copy}" in raised.value.hint
    files = {name: (toy_bundle / name).read_bytes() for name in bundles.verify(toy_bundle).files}
    files["residual-quartz.onnx"] = b"not a model"
    with pytest.raises(DocumentError, match="residual-quartz"):
        write_bundle(copy, bundles.verify(toy_bundle), files, bundles.load)
    assert [p.name for p in copy.parent.iterdir()] == [copy.name]
    bundles.load(copy)


@pytest.mark.parametrize("partly_cleared", [False, True])
def test_what_a_kill_after_the_replacement_left_is_cleared_by_the_next(
    toy_bundle: Path, copy: Path, partly_cleared: bool
) -> None:
    old = Path(shutil.copytree(copy, copy.with_name(f".{copy.name}.old")))
    if partly_cleared:
        (old / MANIFEST).unlink()
    manifest = bundles.verify(toy_bundle)
    files = {name: (toy_bundle / name).read_bytes() for name in manifest.files}
    assert write_bundle(copy, manifest, files, bundles.load).id == manifest.id
    assert [p.name for p in copy.parent.iterdir()] == [copy.name]


def test_a_rename_that_fails_leaves_the_older_bundle(
    toy_bundle: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if target == copy:
            monkeypatch.undo()
            raise OSError(28, "No space left on device")
        return rename(self, target)

    manifest = bundles.verify(toy_bundle)
    files = {name: (toy_bundle / name).read_bytes() for name in manifest.files}
    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="No space"):
        write_bundle(copy, manifest, files, bundles.load)
    assert [p.name for p in copy.parent.iterdir()] == [copy.name]
    bundles.load(copy)


def test_a_foreign_folder_in_its_place_does_not_cost_the_older_bundle(
    toy_bundle: Path, copy: Path
) -> None:
    old = copy.with_name(f".{copy.name}.old")
    copy.rename(old)
    copy.mkdir()
    (copy / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(UsageError, match="not a bundle"):
        write_bundle(copy, bundles.verify(toy_bundle), {}, bundles.load)
    assert (old / MANIFEST).is_file()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": "berth.platform/1"}', "null"])
def test_a_manifest_that_is_none_is_refused(copy: Path, text: str) -> None:
    (copy / MANIFEST).write_text(text)
    with pytest.raises(DocumentError):
        bundles.load(copy)


def test_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="not a bundle folder"):
        bundles.load(tmp_path / "absent")
