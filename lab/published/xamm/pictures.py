"""Pictures of the ablations: bars of error, and embeddings in two dimensions by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score

from berth.plugin.pictures.figure import save
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.published.relative_networks.export import apply
from lab.published.xamm.ablation import Found
from lab.published.xamm.choices import Downstream, Embedding
from lab.published.xamm.embeddings import learn
from lab.published.xamm.plan import EXPERIMENTS, Experiment, label
from lab.published.xamm.samples import samples_of

SHOWN = ("xeon_es-2697v2", "i7-6700k", "gtx1080ti", "polaris-rx480")
"""Sources in the t-SNE: two CPUs, two GPUs."""
_FIGURES = (("mape", "MAPE"), ("median_error", "median error"))


def bars(all_found: Sequence[Found], folder: Path) -> list[str]:
    """One picture an experiment; the names of the files."""
    plot = _pyplot()
    seen = [f for f in all_found if not f.scenario.unseen_target]
    names = []
    for number, experiment in enumerate(EXPERIMENTS, 1):
        figure, axes = plot.subplots(
            len(_FIGURES), len(seen), figsize=(6.2 * len(seen), 7.5), squeeze=False
        )
        for row, (key, title) in enumerate(_FIGURES):
            for column, found in enumerate(seen):
                _bar(axes[row][column], found, experiment, key)
                axes[row][column].set_title(f"{found.scenario.name}: {title}", fontsize=10)
        figure.suptitle(f"{experiment.name}: {experiment.question} (whiskers: over seeds)")
        figure.tight_layout()
        names.append(f"experiment-{number}.png")
        save(figure, folder / names[-1], dpi=90, bbox_inches="tight")
        plot.close(figure)
    return names


def _bar(axis: Any, found: Found, experiment: Experiment, key: str) -> None:
    values = [getattr(found.score(way), key) for way in experiment.choices]
    means = np.array([np.mean(v) for v in values]) * 100
    low = means - np.array([min(v) for v in values]) * 100
    high = np.array([max(v) for v in values]) * 100 - means
    several = len({way.downstream for way in experiment.choices}) > 1
    places = np.arange(len(values))
    colours = [f"C{list(Downstream).index(way.downstream)}" for way in experiment.choices]
    axis.barh(places, means, xerr=[low, high], capsize=2, color=colours)
    axis.set_yticks(places, [label(w, downstream=several) for w in experiment.choices], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("%")


def embeddings(rows: Rows, seed: int, folder: Path) -> tuple[str, list[tuple[str, ...]]]:
    """t-SNE of all embeddings, by machine and by application; the file, and how well they part.

    Learnt on all rows: a picture, not a test. The table holds silhouettes in the embedding itself
    (1: groups far apart, 0: none).
    """
    plot = _pyplot()
    samples = samples_of(rows, SHOWN, rows.platforms)
    machines = np.array(samples.sources)
    applications = np.array([rows.applications[i] for i in samples.rows])
    figure, axes = plot.subplots(2, len(Embedding), figsize=(4 * len(Embedding), 8), squeeze=False)
    parted: list[tuple[str, ...]] = []
    for column, kind in enumerate(Embedding):
        embedder = learn(kind, samples.features, samples.log_speedup, seed)
        made = apply(embedder, samples.features)
        flat = TSNE(random_state=seed, init="pca", perplexity=30).fit_transform(made)
        for row, groups in enumerate((machines, applications)):
            _scatter(axes[row][column], flat, groups, legend=column == 0)
        axes[0][column].set_title(f"{kind}, by machine")
        axes[1][column].set_title(f"{kind}, by application")
        parted.append(
            (
                str(kind),
                f"{silhouette_score(made, machines):.2f}",
                f"{silhouette_score(made, applications):.2f}",
            )
        )
    figure.tight_layout()
    save(figure, folder / "embeddings.png", dpi=80)
    plot.close(figure)
    return "embeddings.png", parted


def _scatter(axis: Any, points: Floats, groups: npt.NDArray[np.str_], *, legend: bool) -> None:
    for name in sorted(set(groups.tolist())):
        chosen = groups == name
        axis.scatter(points[chosen, 0], points[chosen, 1], s=7, label=name)
    axis.set_xticks([])
    axis.set_yticks([])
    if legend:
        axis.legend(fontsize=7, markerscale=2)


def _pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, only for pictures

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot
