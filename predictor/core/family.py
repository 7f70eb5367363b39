"""A Family: one way to predict one or more kinds of workload.

Found by entry point (group ``berth.families``): an importable ``FamilyEntry``, whose module must be
light, since its ``load`` is called only when a workload of one of its kinds comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

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
    """A question to a family: one workload on platforms, with everything known beside them."""

    workload: Workload
    platforms: Mapping[str, Platform]
    """Platforms to predict for."""
    known: Mapping[str, Platform]
    """All platforms of the site and of Berth: parents of slices, the reference. Numbers may
    depend on these, never on which others are asked for."""
    references: tuple[Platform, ...] = ()
    """The platform where it was measured; else those that speedups may be over, the wanted
    first."""

    def document(self, kind: type[D]) -> D:
        """Return the workload's document; ``kind`` is what the family has accepted."""
        document = self.workload.document
        assert isinstance(document, kind)  # noqa: S101 - ``accepts`` was asked
        return document

    @property
    def measured_on(self) -> Platform | None:
        """Return the platform that the workload's document names; None: unknown, or none."""
        name = getattr(self.workload.document, "platform", None)
        return next((platform for platform in self.references if platform.name == name), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """One family's predictions, each of the workload's own unit (a step, a token, a job)."""

    bundle: str
    """Ids of the bundles it used, joined by ``+``."""
    curves: Mapping[str, PredictionCurve]
    """Predictions by platform; a platform that the family knows nothing of is absent."""
    sizes: SizeGrowth = field(default_factory=lambda: SizeGrowth(None, None))
    sources: Mapping[str, tuple[SourceShare, ...]] = field(default_factory=dict)
    """Sources by platform, where the family combined several."""
    reference_s: float | None = None
    """Measured on the reference platform, in the workload's unit."""
    reference: str | None = None
    """Name of that platform; None: the one that the workload's document names."""
    nodes: NodeScaling | None = None
    """Change of time and memory with the number of nodes, where that is looked at."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that moves a prediction, or bounds it."""

    what: str
    factor: float
    """Factor on the predicted time: below 1 makes it faster."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a prediction."""

    summary: str
    """One sentence: what limits the workload there."""
    effects: tuple[Effect, ...] = ()
    """Largest first."""


class Family(Protocol):
    """One way to predict. Immutable after loading; safe to share between threads."""

    @property
    def name(self) -> str:
        """Return the name of its entry point."""
        ...

    def accepts(self, workload: Workload) -> bool:
        """Return whether it can predict this workload at all (of a kind that its entry names)."""
        ...

    def forecast(self, question: Question) -> Answer:
        """Predict where it knows something.

        Raises UsageError for a workload that nothing can be predicted of, in one sentence.
        """
        ...

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Explain why the prediction for that platform is as it is."""
        ...


@runtime_checkable
class ExplainsSeveral(Protocol):
    """A family that explains several platforms in less time than one after another."""

    def explain_each(
        self, question: Question, platforms: Sequence[Platform]
    ) -> Sequence[Explanation]:
        """Explain each platform, in their order, as ``Family.explain`` does."""
        ...


Bundles = Mapping[str, Path]
"""Bundle folders by the schema of their manifest; those that a site named."""


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
    """Kinds of workload that it may accept."""
    load: Callable[[Bundles], Family | None]
    """Makes the family from the site's bundles (the shipped one where its schema is absent); None:
    it has nothing to predict with. Raises DocumentError for a broken bundle."""
    adjust: Callable[[Question, Bundles, Adjusted], Adjusted] | None = None
    """Adjusts workloads of other kinds by what this family knows of platforms, for example that a
    slice is never faster than its GPU."""
    bundle_readers: Mapping[str, str] = field(default_factory=dict)
    """Modules by schema of the bundles that it can be made from; their ``verify(folder)`` and
    ``load(folder)`` read one."""


def load_from(module: str, name: str) -> Callable[[Bundles], Family | None]:
    """Return a loader that imports ``module`` when it is called: its class ``name`` loads itself
    from the site's bundles."""

    def load(bundles: Bundles) -> Family | None:
        family: Family | None = getattr(import_module(module), name).load(bundles)
        return family

    return load


FAMILIES: Registry[FamilyEntry] = Registry(
    "berth.families", kind="family", own=OWN_ENTRY_POINTS, needs=("name", "kinds", "load")
)
