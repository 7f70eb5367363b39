"""The Site: the validated content of the site file, as policies and the daemon use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.documents import Document
from berth.pilot.platform import Platform
from berth.plugin.site.document import (
    Coverage,
    DaemonSettings,
    LearningTable,
    RightSizing,
    Show,
    SlicesFromUse,
)
from berth.plugin.site.programs import ProgramRules
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Mode


@dataclass(frozen=True, slots=True)
class Site:
    """The content of one site file, validated, with all references resolved."""

    source: str
    """Path of the file, or a name for the Site's origin."""
    digest: str
    """Digest of the file's text and of the platforms that it uses."""
    name: str
    scheduler: str
    """The scheduler's registered name."""
    mode: Mode
    currency: str
    reference_platform: str | None
    reference_queue: str | None
    auto_queue: str | None
    policy: PolicySettings
    daemon: DaemonSettings
    coverage: Coverage
    platforms: Mapping[str, Platform]
    """Platforms of the candidates and the reference, with the site's prices."""
    candidates: tuple[Candidate, ...]
    bundles: tuple[Path, ...]
    """Folders of bundles that replace shipped ones."""
    learning: LearningTable
    right_sizing: RightSizing
    slices_from_use: SlicesFromUse
    programs: ProgramRules
    """How the programs of jobs are recognised."""
    show: Show
    scheduler_settings: Document | None
    """The site file's table for its scheduler; None: defaults apply."""
    carbon_g_per_kwh: float | None
    """Carbon intensity of the site's electricity; None: not known."""

    @property
    def reference_candidate(self) -> Candidate | None:
        """Return the candidate in the reference queue where pilot jobs run; None: there is no such
        candidate.
        """
        in_queue = [c for c in self.candidates if c.queue == self.reference_queue and not c.is_gpu]
        return next((c for c in in_queue if c.platform == self.reference_platform), None)
