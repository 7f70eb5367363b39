"""The model card of a bundle of relative performance."""

from __future__ import annotations

from berth.predictor.families.relative.bundle import RelativeManifest


def card(manifest: RelativeManifest) -> str:
    """``CARD.md`` as text."""
    training = manifest.training
    lines = [
        "# Model card: relative performance from counters",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
        "",
        "## What it is",
        f"{manifest.family}: {manifest.what}.",
        "",
        f"Piloted on `{manifest.reference}`; predicts {', '.join(manifest.platforms)}.",
        f"Counters: {', '.join(manifest.counters)}.",
        "",
        "## Data",
        f"{training.rows} rows of {len(training.applications)} applications: "
        f"{', '.join(training.applications)}.",
        *(f"- `{path}` sha256 `{digest[:16]}`" for path, digest in training.sources.items()),
        "",
        "## Figures",
        "Leave-one-application-out, applications weigh the same (`python -m lab relative`",
        "has the other splits, the other families and what each figure means).",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name} | {value:.4g} |" for name, value in manifest.figures.items()),
        "",
        "## Limits",
        f"- {len(training.applications)} applications: the figures move by several hundredths when",
        "  one of them is another.",
        "- Constants of the cost model and its Gaussian processes were set by hand, looking at",
        "  these applications; docs/relative.md lists what was tried.",
        "- A time on the reference is needed, and the counters of the same source.",
        f"- Seed {training.seed}; {', '.join(f'{k} {v}' for k, v in training.libraries.items())}.",
    ]
    return "\n".join(lines) + "\n"
