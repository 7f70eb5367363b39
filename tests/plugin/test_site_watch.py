"""Reload without restart: a broken file keeps the old one and says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.site import SiteWatcher, load
from berth.policies.values import Mode

SCHEMA = 'schema = "berth.site/1"\n'


def replace(path: Path, text: str) -> None:
    """As editors do: a new file put in the old one's place."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def watcher(folder: Path) -> tuple[SiteWatcher, Path]:
    path = folder / "berth.toml"
    path.write_text(SCHEMA)
    return SiteWatcher(path), path


def test_a_good_change_is_taken(tmp_path: Path) -> None:
    watching, path = watcher(tmp_path)
    assert not watching.poll().changed
    replace(path, SCHEMA + 'mode = "enforce"')
    found = watching.poll()
    assert found.changed
    assert found.site.mode is Mode.ENFORCE
    assert watching.site is found.site
    assert not watching.poll().changed


@pytest.mark.parametrize("broken", ["schema = ", SCHEMA + "mod = 3", ""])
def test_a_broken_file_keeps_the_old_site_and_reports(tmp_path: Path, broken: str) -> None:
    watching, path = watcher(tmp_path)
    old = watching.site
    replace(path, broken)
    found = watching.poll()
    assert (found.site, found.changed) == (old, False)
    assert found.problem is not None
    assert "berth.toml" in found.problem
    assert watching.poll().problem == found.problem  # until it is mended
    replace(path, SCHEMA + 'mode = "off"')
    mended = watching.poll()
    assert (mended.changed, mended.problem, mended.site.mode) == (True, None, Mode.OFF)


def test_a_deleted_file_keeps_the_old_site(tmp_path: Path) -> None:
    watching, path = watcher(tmp_path)
    path.unlink()
    found = watching.poll()
    assert found.problem is not None
    assert "does not exist" in found.problem
    assert found.site.mode is Mode.SHADOW


def test_a_file_whose_rights_alone_change_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, path = watcher(tmp_path)

    def denied(path: Path) -> NoReturn:
        raise DocumentError(path, "cannot be read: Permission denied")

    path.chmod(0o600)
    with monkeypatch.context() as patched:  # root would read it all the same
        patched.setattr(load, "load_site", denied)
        assert "Permission denied" in str(watching.poll().problem)
    path.chmod(0o644)
    assert watching.poll().problem is None


def test_a_change_that_says_the_same_is_no_change(tmp_path: Path) -> None:
    watching, path = watcher(tmp_path)
    replace(path, SCHEMA + "# only a remark\n")
    assert not watching.poll().changed


def test_the_first_reading_must_succeed(tmp_path: Path) -> None:
    with pytest.raises(DocumentError):
        SiteWatcher(tmp_path / "none.toml")
