"""Loads a Site from the site file, and again whenever the file changes.

References are checked, and defaults are taken from the platforms. If the changed file is invalid,
the previous Site stays in use and the problem is reported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.document_errors import unknown_key
from berth.pilot.documents import Document, read_json, read_toml
from berth.pilot.errors import BerthError, DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.plugin.site.candidate_tables import PlatformTable
from berth.plugin.site.candidates import candidates_of, platform_named, unknown_platform
from berth.plugin.site.document import DaemonSettings, SiteDocument
from berth.plugin.site.prior_order import with_prior_order
from berth.plugin.site.programs import FIELDS, ProgramRules, compiled_by_re2, rule
from berth.plugin.site.schedulers import SCHEDULERS, SchedulerTraits, own_table
from berth.plugin.site.site import Site
from berth.policies import digest
from berth.policies.objectives import OBJECTIVES
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate
from berth.predictor.hardware import platforms as known_platforms

DEMO_FILE = Path(__file__).with_name("demo.toml")
_Mark = tuple[int, ...]


def load_site(path: Path) -> Site:
    """Read and check one site file. Raises DocumentError, whose message names the faulty key."""
    return build_site(read_toml(path, SiteDocument), path)


def demo_site() -> Site:
    """Return the demonstration site. Its prices are typical list prices, not an offer of any
    provider.
    """
    return load_site(DEMO_FILE)


def build_site(document: SiteDocument, path: Path) -> Site:
    """Return the Site that ``document``, read from ``path``, describes. Raises DocumentError."""
    platforms = _platforms(document, path)
    scheduler = SCHEDULERS.load(document.site.scheduler)
    settings = _scheduler_settings(document, scheduler, path)
    candidates = candidates_of(document, scheduler, platforms, path)
    candidates = with_prior_order(candidates, platforms)
    reference = document.site.reference_platform
    if reference is not None and reference not in platforms:
        raise unknown_platform(path, "site.reference_platform", reference, platforms)
    auto = document.site.auto_partition
    used = {c.platform for c in candidates} | ({reference} if reference else set())
    _check_auto(document, auto, path)
    used_platforms = {name: platforms[name] for name in sorted(used)}
    policy = PolicySettings(
        list_queues=scheduler.lists_queues,
        fit=document.fit,
        gate=document.gate,
        **dict(document.policy),
    )
    _check_objective(policy, candidates, path)
    return Site(
        source=str(path),
        digest=digest.of_text(
            document.model_dump_json(by_alias=True),
            *([] if settings is None else [settings.model_dump_json()]),
            *(p.model_dump_json() for p in used_platforms.values()),
        ),
        name=document.site.name,
        scheduler=document.site.scheduler,
        scheduler_settings=settings,
        mode=document.mode,
        currency=document.site.currency,
        reference_platform=reference,
        reference_queue=document.site.reference_partition,
        auto_queue=auto,
        policy=policy,
        daemon=_daemon(document.daemon, scheduler, path),
        coverage=document.coverage,
        show=document.messages.show,
        platforms=used_platforms,
        bundles=tuple(_beside(path, name) for name in document.predictor.bundles),
        learning=document.learning,
        right_sizing=document.right_sizing,
        slices_from_use=document.slices_from_use,
        programs=_programs(document, path),
        candidates=candidates,
        carbon_g_per_kwh=document.energy.carbon_g_per_kwh,
    )


def _programs(document: SiteDocument, path: Path) -> ProgramRules:
    rules = []
    for index, table in enumerate(document.programs):
        if not table.expressions:
            raise DocumentError(
                path,
                "has no expression",
                key=f"programs.{index}",
                hint=f"give one of {', '.join(FIELDS)}",
            )
        rules.append(
            rule(
                table.name,
                table.expressions,
                over_job_name=table.over_job_name,
                compiled=compiled_by_re2,
            )
        )
    return ProgramRules(rules)


def _scheduler_settings(
    document: SiteDocument, scheduler: type[SchedulerTraits], path: Path
) -> Document | None:
    """Return the scheduler's own table, checked by that scheduler's schema; None: the file has
    none."""
    for name, table in (document.model_extra or {}).items():
        if name != scheduler.name and name not in SCHEDULERS.names():
            raise unknown_key(path, name, SiteDocument)
        if name != scheduler.name:
            raise DocumentError(
                path, f"is not for this site: its scheduler is {scheduler.name!r}", key=name
            )
        return own_table(name, table, scheduler.settings_type, source=path)
    return None


def _beside(path: Path, text: str | Path) -> Path:
    """Return ``text`` as a path; a relative path is taken relative to the site file."""
    return path.absolute().parent / text


def _platforms(document: SiteDocument, path: Path) -> dict[str, Platform]:
    """Return the shipped platforms and the site's own by name, with the site's prices."""
    platforms = dict(known_platforms.load())
    seen: set[str] = set()
    for index, table in enumerate(document.platforms):
        key = f"platforms.{index}"
        if table.name in seen:
            raise DocumentError(path, f"{table.name!r} is defined twice", key=f"{key}.name")
        seen.add(table.name)
        platforms[table.name] = _priced(_platform(table, key, path, platforms), table)
    return platforms


def _platform(
    table: PlatformTable, key: str, path: Path, known: Mapping[str, Platform]
) -> Platform:
    if table.file is None:
        return platform_named(table.name, known, f"{key}.name", path)
    try:
        platform = read_json(_beside(path, table.file), Platform)
    except DocumentError as error:
        raise DocumentError(path, error.message, key=f"{key}.file", hint=error.hint) from None
    if platform.name != table.name:
        raise DocumentError(
            path, f"{table.file} holds platform {platform.name!r}", key=f"{key}.name"
        )
    return platform


def _priced(platform: Platform, table: PlatformTable) -> Platform:
    changes = {
        name: value
        for name, value in (
            ("price_per_hour", table.price_per_hour),
            ("power_w", table.power_w),
        )
        if value is not None
    }
    return platform.model_copy(update=changes) if changes else platform


def _check_objective(policy: PolicySettings, candidates: tuple[Candidate, ...], path: Path) -> None:
    """Raise DocumentError where the objective does not suit the site."""
    try:
        OBJECTIVES.load(policy.objective).of(policy, sorted(candidates, key=lambda c: c.name))
    except UsageError as error:
        raise DocumentError(
            path, f"{error.message}; {error.hint}", key="policy.objective"
        ) from None


def _check_auto(document: SiteDocument, auto: str | None, path: Path) -> None:
    if auto is None:
        return
    for index, table in enumerate(document.candidates):
        if table.partition == auto:
            raise DocumentError(
                path,
                f"is {auto!r}, the partition that means Berth chooses; a candidate is a real place",
                key=f"candidates.{index}.partition",
            )


def _daemon(table: DaemonSettings, scheduler: type[SchedulerTraits], path: Path) -> DaemonSettings:
    paths = ("socket", "user_socket", "kill_switch", "ruled_out")
    changes: dict[str, Any] = {name: _beside(path, getattr(table, name)) for name in paths}
    changes["scheduler_users"] = (
        table.scheduler_users or scheduler.daemon_users or (scheduler.name,)
    )
    return table.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of reading the site file again: a new Site, or why the previous one stays
    in use.
    """

    site: Site
    changed: bool
    problem: str | None = None


class SiteWatcher:
    """Reads the site file again when it changes.

    The constructor may raise DocumentError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        before = _mark(path)
        self.site = load_site(path)
        self._seen = before
        self.problem: str | None = None
        """Why the file's current version was not accepted; None: the current Site is the file's."""

    def poll(self) -> Reload:
        """Read the site file if it has changed; otherwise this costs one stat. Never raises."""
        if _mark(self.path) == self._seen:
            return Reload(self.site, changed=False, problem=self.problem)
        return self.reload()

    def reload(self) -> Reload:
        """Read the site file now, even if it has not changed (for SIGHUP). Never raises."""
        before = _mark(self.path)
        try:
            site = load_site(self.path)
        except BerthError as error:
            self.problem = f"{error.message} ({error.hint})" if error.hint else error.message
            self._seen = before
            return Reload(self.site, changed=False, problem=self.problem)
        changed, self.site, self.problem = site.digest != self.site.digest, site, None
        self._seen = before
        return Reload(site, changed=changed)


def _mark(path: Path) -> _Mark | None:
    """Return the inode, size, time and permissions that identify a version of the file; None: the
    file does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - one call, no Path objects, run every second
    except OSError:
        return None
    rights = status.st_mode, status.st_uid, status.st_gid
    return (status.st_ino, status.st_size, status.st_mtime_ns, *rights)
