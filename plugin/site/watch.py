"""Reload without restart: a broken site file keeps the old one and says what is wrong."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.site.load import load_site
from berth.plugin.site.site import Site


@dataclass(frozen=True, slots=True)
class Reload:
    """What ``SiteWatcher.poll`` found: a new Site, or why the old one stays."""

    site: Site
    changed: bool
    problem: str | None = None


_Mark = tuple[int, ...]


class SiteWatcher:
    """Reads the site file again when it, or its file of carbon intensities, changes.

    The first reading may raise DocumentError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        before = _mark(path)
        self.site = load_site(path)
        self._seen = before, self._beside()
        self.problem: str | None = None
        """Why the file as it is now was not taken; None: the present site is the file."""

    def poll(self) -> Reload:
        """Look once; cheap (a stat for each file) while nothing has changed. Never raises."""
        if (_mark(self.path), self._beside()) == self._seen:
            return Reload(self.site, changed=False, problem=self.problem)
        return self.reload()

    def reload(self) -> Reload:
        """Read now, changed or not (for SIGHUP). Never raises."""
        before = _mark(self.path)
        try:
            site = load_site(self.path)
        except BerthError as error:
            self.problem = f"{error.message} ({error.hint})" if error.hint else error.message
            self._seen = before, self._beside()
            return Reload(self.site, changed=False, problem=self.problem)
        changed, self.site, self.problem = site.digest != self.site.digest, site, None
        self._seen = before, self._beside()
        return Reload(site, changed=changed)

    def _beside(self) -> _Mark | None:
        """Of the file of carbon intensities, where the site has one."""
        return None if self.site.carbon_file is None else _mark(self.site.carbon_file)


def _mark(path: Path) -> _Mark | None:
    """Tells one version of the file from another: inode, size, time, and who may read it; None: it
    is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one call, no Path objects, run every second
    except OSError:
        return None
    rights = found.st_mode, found.st_uid, found.st_gid
    return (found.st_ino, found.st_size, found.st_mtime_ns, *rights)
