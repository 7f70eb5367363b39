"""``CARD.md`` of a bundle: what it is, what it was made of, how good it is, what it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.predictor.core.bundle import BundleManifest


def model_card(
    title: str,
    manifest: BundleManifest,
    sections: Mapping[str, Sequence[str]],
    *,
    figures: str = "",
    command: str = "",
) -> str:
    """Sections by heading, then the manifest's figures.

    ``figures`` says which split they are of; ``command`` computes them where there are none.
    """
    lines = [
        f"# Model card: {title}",
        "",
        f"Made {manifest.created} by `{manifest.command}` with Berth {manifest.berth_version}.",
    ]
    for heading, body in sections.items():
        lines += ["", f"## {heading}", *body]
    lines += ["", "## Figures"]
    if manifest.figures:
        rows = [(name, f"{value:.4g}") for name, value in manifest.figures.items()]
        lines += [*([figures, ""] if figures else []), *markdown_table(("figure", "value"), rows)]
    else:
        lines.append(f"None given{f': run `{command}`' if command else ''}.")
    return "\n".join(lines) + "\n"


def source_lines(sources: Mapping[str, str]) -> list[str]:
    """Return one line a data set: its path and checksum."""
    return [f"- `{path}` sha256 `{digest[:16]}`" for path, digest in sources.items()]


def library_line(seed: int, libraries: Mapping[str, str]) -> str:
    """Return what makes the same bundle again."""
    return f"- Seed {seed}; {', '.join(f'{name} {v}' for name, v in libraries.items())}."


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Its lines."""
    bars = "|" + "---|" * len(header)
    return [f"| {' | '.join(header)} |", bars, *(f"| {' | '.join(row)} |" for row in rows)]
