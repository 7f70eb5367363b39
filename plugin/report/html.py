"""Writes a report as one self-contained HTML file: no scripts, no external resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.report.parts import Part, Picture, Report, Table

_STYLE = """
:root{color-scheme:light dark;--ink:#22303c;--paper:#fff;--faint:#5a6672;--line:#d9dee3;
--soft:#f3f5f7}
@media(prefers-color-scheme:dark){:root{--ink:#dee2e6;--paper:#212529;--faint:#adb5bd;
--line:#495057;--soft:#2b3035}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:60rem;margin:2rem auto;padding:0 1rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:.6rem 0}
caption{text-align:left;color:var(--faint);padding:.2rem 0}
.line{white-space:nowrap}
.prose{min-width:15rem}
td,th{border-bottom:1px solid var(--line);padding:.25rem .7rem;text-align:left;font-weight:normal}
thead th{font-weight:bold}
tr.doubtful>*{color:var(--faint);font-style:italic}
pre{background:var(--soft);padding:.8rem;overflow:auto;font-size:13px}
img{max-width:100%;height:auto;background:#fff;border-radius:.3rem;padding:.4rem}
.lead{font-size:1.1rem;border-left:4px solid #d98324;padding-left:.8rem}
.problem{border-left:4px solid #b5493b;padding-left:.8rem}
h2{margin-top:2rem;font-size:1.2rem}
small{color:var(--faint)}
"""
_DOUBTFUL = ' class="doubtful"'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html(report: Report, *, made_by: str) -> str:
    """Return the report as an HTML page."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
        f"<h1>{escape(report.title)}</h1>",
    ]
    if report.lead:
        lines.append(f'<p class="lead">{escape(report.lead)}</p>')
    for part in report.parts:
        lines += _part(part)
    lines.append(f"<p><small>{escape(made_by)}, {escape(made)}</small></p>")
    return "\n".join(lines) + "\n</main>\n</body>\n</html>\n"


def _part(part: Part) -> Iterator[str]:
    yield f"<h2>{escape(part.title)}</h2>"
    if part.problem is not None:
        yield _problem(part.problem)
    yield from (f"<p>{escape(line)}</p>" for line in part.lines)
    if part.facts:
        facts = [_cell('th scope="row"', name) + _cell("td", value) for name, value in part.facts]
        rows = "".join(f"<tr>{cells}</tr>" for cells in facts)
        yield f"<table><tbody>{rows}</tbody></table>"
    yield from map(_picture, part.pictures)
    yield from map(_table, part.tables)
    if part.verbatim:
        yield f'<pre tabindex="0">{escape(part.verbatim)}</pre>'
    yield from (f"<p>{escape(note)}</p>" for note in part.notes)


def _problem(error: BerthError) -> str:
    hint = f"<br>{escape(error.hint)}" if error.hint else ""
    return f'<p class="problem">{escape(error.message)}.{hint}</p>'


def _picture(picture: Picture) -> str:
    return f'<p><img src="{picture.address}" alt="{escape(picture.words)}"></p>'


def _table(table: Table[Any]) -> str:
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in table.header)
    rows = "\n".join(
        f"<tr{_DOUBTFUL * table.is_doubtful(index)}>{_cells(row)}</tr>"
        for index, row in enumerate(table.rows)
    )
    none = f'<tr><td colspan="{len(table.header)}">{escape(table.if_empty or "None.")}</td></tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f"<table><caption>{escape(table.caption)}</caption><thead><tr>{heads}</tr></thead>\n"
        f"<tbody>{rows or none}</tbody></table></div>"
    )


def _cells(row: Iterable[str]) -> str:
    first, *rest = row
    return _cell('th scope="row"', first) + "".join(_cell("td", cell) for cell in rest)


def _cell(tag: str, text: str) -> str:
    kind = "line" if Table.in_line(text) else "prose"
    return f'<{tag} class="{kind}">{escape(text)}</{tag.partition(" ")[0]}>'
