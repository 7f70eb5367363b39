"""The report that every evaluation returns (text, Markdown, JSON), and model cards of bundles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from berth.pilot.documents import write_text
from berth.plugin.report.parts import text_table
from berth.plugin.report.terminal import table_text
from berth.predictor.core.bundle import BundleManifest
from lab.ground.evaluate import Result
from lab.ground.figures import Figures


def model_card(
    title: str,
    manifest: BundleManifest,
    sections: Mapping[str, Sequence[str]],
    *,
    figures: str = "",
    command: str = "",
) -> str:
    """Return a model card in Markdown: ``sections`` by heading, then the figures of ``manifest``.

    ``figures``: a sentence on the split that the figures come from. ``command``: the command that
    computes the figures, named where the manifest has none.
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
    """Return one line per data set: its path and the start of its SHA-256 checksum."""
    return [f"- `{path}` sha256 `{digest[:16]}`" for path, digest in sources.items()]


def library_line(seed: int, libraries: Mapping[str, str]) -> str:
    """Return the line of a model card that names the seed and the versions of libraries."""
    return f"- Seed {seed}; {', '.join(f'{name} {v}' for name, v in libraries.items())}."


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    bars = "|" + "---|" * len(header)
    return [f"| {' | '.join(header)} |", bars, *(f"| {' | '.join(row)} |" for row in rows)]


FIGURES: Mapping[str, tuple[str, str]] = {
    "rows": ("rows", "{:d}"),
    "mean_error": ("mean", "{:.1%}"),
    "median_error": ("median", "{:.1%}"),
    "p90_error": ("90 % below", "{:.1%}"),
    "within_10": ("in 10 %", "{:.1%}"),
    "bias": ("predicted / measured", "{:.2f}"),
    "r2_log": ("R2 log", "{:.3f}"),
    "kendall_tau": ("tau", "{:.3f}"),
    "coverage": ("in 90 % interval", "{:.1%}"),
    "interval_factor": ("interval x", "{:.2f}"),
}
"""Column title and number format of each field of ``Figures``."""
USUAL = ("rows", "mean_error", "median_error", "within_10", "kendall_tau")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a report, with its title."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """The results of an evaluation: notes, tables and data."""

    title: str
    notes: tuple[str, ...] = ()
    """Sentences above the tables: the data, the split, the definition of errors."""
    sections: tuple[Section, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """All figures, for the JSON file; values may be dataclasses."""
    shipped: Mapping[str, float] = field(default_factory=dict)
    """Figures of the shipped method by name, for the model card of its bundle."""
    after: tuple[str, ...] = ()
    """Notes under the tables."""

    def text(self) -> str:
        """Return the report as text for a terminal."""
        lines = [self.title, *self.notes]
        for one in self.sections:
            table = text_table(one.title, one.header, one.rows)
            lines += ["", one.title, table_text(table, indent=2)]
        return "\n".join([*lines, *(["", *self.after] if self.after else [])])

    def markdown(self) -> str:
        """Return the report as a Markdown page."""
        lines = [f"# {self.title}", "", *self.notes]
        for one in self.sections:
            lines += ["", f"## {one.title}", "", *markdown_table(one.header, one.rows)]
        return "\n".join([*lines, *(["", *self.after] if self.after else [])]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return ``data`` as JSON types, with ``shipped`` where there is any."""
        found: dict[str, Any] = plain(self.data)
        return {**found, "shipped": dict(self.shipped)} if self.shipped else found

    def write(self, folder: Path, name: str = "evaluation") -> None:
        """Write ``NAME.json`` and ``NAME.md`` into ``folder``."""
        write_text(folder / f"{name}.json", json.dumps(self.as_dict(), indent=1) + "\n")
        write_text(folder / f"{name}.md", self.markdown())


def figure_cells(of: Figures, names: Sequence[str] = USUAL) -> list[str]:
    """Return one table cell for each figure in ``names``; ``-`` where the figure is None."""
    found = ((getattr(of, name), FIGURES[name][1]) for name in names)
    return ["-" if value is None else form.format(value) for value, form in found]


def figure_titles(names: Sequence[str] = USUAL) -> list[str]:
    """Return the column titles that belong to ``figure_cells``."""
    return [FIGURES[name][0] for name in names]


def results_section(
    title: str,
    results: Iterable[Result],
    names: Sequence[str] = USUAL,
    *,
    rows_of: str = "",
    seconds: str = "",
) -> Section:
    """Return a table with one row per result.

    ``rows_of``: title of a column with the subset of rows; empty: no such column.
    ``seconds``: title of a column with processor seconds; empty: no such column.
    """
    header = (*filter(None, (rows_of, "method", *figure_titles(names), seconds)),)
    rows = [
        (
            *([one.rows_of] if rows_of else []), one.family, *figure_cells(one.figures, names),
            *([f"{one.seconds:.0f}"] if seconds else []),
        )
        for one in results
    ]  # fmt: skip
    return Section(title, header, rows)


def plain(value: Any) -> Any:
    """Convert dataclasses, tuples and mappings to dicts and lists for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value
