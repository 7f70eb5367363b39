"""The platforms that Berth knows: shipped JSON files (``berth.platform/1``) and a site's own.

``load()`` returns both. A site adds its own files to a folder (``berth site platform add``); they
replace shipped platforms of the same name.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from berth.pilot.documents import read_json, write_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform, PlatformKind

SHIPPED = Path(__file__).parent
FOLDER_VARIABLE = "BERTH_PLATFORMS"
"""Environment variable with the path of the site's own folder of platform files."""


@cache
def shipped() -> Mapping[str, Platform]:
    """Return the platforms that are shipped with Berth, by name."""
    return dict(_read_folder(SHIPPED))


def load(folder: Path | None = None) -> Mapping[str, Platform]:
    """Return the shipped platforms and those in ``folder`` (default: ``$BERTH_PLATFORMS``) by name.

    Raises DocumentError for a file that is no platform, whose name differs from the platform's, or
    that is a slice of an unknown platform.
    """
    if folder is None and os.environ.get(FOLDER_VARIABLE):
        folder = Path(os.environ[FOLDER_VARIABLE])
    platforms = dict(shipped())
    if folder is not None:
        if not folder.is_dir():
            raise DocumentError(folder, "is not a folder of platform files")
        platforms.update(_read_folder(folder))
    for platform in platforms.values():
        _check_parent(platform, platforms)
    return platforms


def get(name: str, known: Mapping[str, Platform] | None = None) -> Platform:
    """Return a platform by its name. Raises UsageError that suggests the most similar name."""
    platforms = load() if known is None else known
    if name not in platforms:
        near = difflib.get_close_matches(name, platforms, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`berth site platform list` shows them"
        raise UsageError(f"there is no platform {name!r}", hint=hint)
    return platforms[name]


def add(source: Path, folder: Path) -> Platform:
    """Copy the platform file ``source`` to ``folder``, named after the platform; return it.

    Raises DocumentError for an invalid file or a slice of an unknown platform.
    """
    platform = read_json(source, Platform)
    _check_parent(platform, {**shipped(), platform.name: platform})
    write_json(folder / f"{platform.name}.json", platform)
    return platform


def _read_folder(folder: Path) -> Iterator[tuple[str, Platform]]:
    for path in sorted(folder.glob("*.json")):
        platform = read_json(path, Platform)
        if platform.name != path.stem:
            raise DocumentError(path, f"names {platform.name!r}; the file must be called like it")
        yield platform.name, platform


def _check_parent(platform: Platform, known: Mapping[str, Platform]) -> None:
    if platform.kind is PlatformKind.MIG and platform.parent not in known:
        raise DocumentError(
            platform.name, f"is a slice of {platform.parent!r}, which is not known", key="parent"
        )
