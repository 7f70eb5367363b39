"""The Family protocol: a model that predicts one or more kinds of workload.

Families are found by entry point (group ``berth.families``), which names a ``FamilyEntry``. The
module of that entry must import quickly: heavy imports belong in ``load``, which is called only
when a workload of one of the family's kinds is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

from berth.pilot.platform import Platform
from berth.pilot.plugins import Registry
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.nodes import NodeScaling
from berth.predictor.core.prediction import PredictionCurve
from berth.predictor.core.sizes import SizeGrowth
from berth.predictor.core.workload import OWN_ENTRY_POINTS, Workload

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Question:
    """A prediction request to a family: one workload, and the platforms to predict it on."""

    workload: Workload
    platforms: Mapping[str, Platform]
    """Platforms to predict for."""
    known: Mapping[str, Platform]
    """All platforms of the site and those shipped with Berth, such as the GPUs that slices belong
    to and the reference. A prediction may depend on these, but never on which other platforms are
    requested."""
    references: tuple[Platform, ...] = ()
    """The platform where the workload was measured; else candidate reference platforms in order of
    preference."""

    def document(self, kind: type[D]) -> D:
        """Return the workload's document, of the type ``kind`` that the family's ``accepts``
        approved."""
        document = self.workload.document
        assert isinstance(document, kind)  # noqa: S101 - ``accepts`` was asked
        return document

    @property
    def measured_on(self) -> Platform | None:
        """Return the platform that the workload's document names; None: no platform named, or
        unknown."""
        name = getattr(self.workload.document, "platform", None)
        return next((platform for platform in self.references if platform.name == name), None)


@dataclass(frozen=True, slots=True)
class FamilyForecast:
    """One family's predictions, each per workload unit (a step, a token, a job)."""

    bundle: str
    """Ids of the bundles that the family used, joined by ``+``."""
    curves: Mapping[str, PredictionCurve]
    """Predictions by platform; platforms that the family cannot predict are absent."""
    sizes: SizeGrowth = field(default_factory=lambda: SizeGrowth(None, None))
    """Change of time and memory with the problem size."""
    sources: Mapping[str, tuple[SourceShare, ...]] = field(default_factory=dict)
    """Sources by platform, where the family combined several sources."""
    reference_s: float | None = None
    """Time measured on the reference platform, in seconds per workload unit."""
    reference: str | None = None
    """Name of the reference platform; None: the platform that the workload's document names."""
    nodes: NodeScaling | None = None
    """Change of time and memory with the number of nodes; None: unknown."""
    fails_on: Mapping[str, str] = field(default_factory=dict)
    """Platforms where the workload's jobs fail, each with a sentence that says so."""
    least_cores: int = 1
    """Fewest cores that the workload is known to run with, or that it may need."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One cause of a prediction, with its factor on the predicted time."""

    what: str
    """Name of the cause."""
    factor: float
    """Factor on the predicted time; below 1: faster."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a family predicts this time on a platform: a sentence, and factors on the time."""

    summary: str
    """One sentence that says which resource limits the workload on the platform."""
    effects: tuple[Effect, ...] = ()
    """Largest first."""


class Family(Protocol):
    """A model that predicts some kinds of workload; immutable after loading and safe to share
    between threads."""

    @property
    def name(self) -> str:
        """Return the name of the family's entry point."""
        ...

    def accepts(self, workload: Workload) -> bool:
        """Return whether the family can predict this workload, whose kind its entry names."""
        ...

    def forecast(self, question: Question) -> FamilyForecast:
        """Return predictions for the platforms that the family can predict.

        Raises UsageError with one sentence for a workload that the family cannot predict anywhere.
        """
        ...

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return the reasons for the family's prediction on that platform."""
        ...


Bundles = Mapping[str, Path]
"""Bundle folders that the site named, by the schema of each manifest."""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The combined answers of all families, by platform, before or after an adjustment."""

    curves: Mapping[str, PredictionCurve]
    sources: Mapping[str, tuple[SourceShare, ...]]


@dataclass(frozen=True, slots=True)
class FamilyEntry:
    """The object that an entry point of ``berth.families`` names."""

    name: str
    kinds: tuple[str, ...]
    """Kinds of workload that the family may accept."""
    load: Callable[[Bundles], Family | None]
    """Returns the family, made from the site's bundles (the shipped bundle where the site has none
    of its schema); None: there is no bundle to predict with. Raises DocumentError for a broken
    bundle."""
    adjust: Callable[[Question, Bundles, Adjusted], Adjusted] | None = None
    """Adjusts predictions for workloads of other kinds using this family's knowledge of platforms,
    for example that a slice is never faster than its GPU."""
    bundle_readers: Mapping[str, str] = field(default_factory=dict)
    """Module names by bundle schema. Each module's ``verify(folder)`` and ``load(folder)`` read a
    bundle of that schema."""
    needs_counters: bool = False
    """Whether the family predicts a program from counters, so that time and memory do not do."""


def load_from(module: str, name: str) -> Callable[[Bundles], Family | None]:
    """Return a loader that imports ``module`` when called and returns ``name.load(bundles)`` for
    the class ``name`` there."""

    def load(bundles: Bundles) -> Family | None:
        family: Family | None = getattr(import_module(module), name).load(bundles)
        return family

    return load


FAMILIES: Registry[FamilyEntry] = Registry(
    "berth.families", kind="family", own=OWN_ENTRY_POINTS, needs=("name", "kinds", "load")
)
