"""The tables of ``docs/site-file.md``, from the documents themselves.

``python -m berth.plugin.site.reference FILE`` writes them anew between the page's marks.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from berth.plugin.site.document import (
    CandidateTable,
    CoverageTable,
    DaemonTable,
    PlatformTable,
    PolicyTable,
    SiteDocument,
    SiteTable,
    TranslationTable,
    WeightsTable,
)
from berth.plugin.site.quantities import Duration, Memory

BEGIN = "<!-- keys: generated from plugin/site/document.py; see make docs -->"
END = "<!-- end of keys -->"
_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The top of the file", SiteDocument),
    ("`[site]`", SiteTable),
    ("`[policy]`", PolicyTable),
    ("`[policy.weights]`", WeightsTable),
    ("`[daemon]`", DaemonTable),
    ("`[coverage]`", CoverageTable),
    ("`[[platforms]]`", PlatformTable),
    ("`[[candidates]]`", CandidateTable),
    ("`[candidates.translation]`", TranslationTable),
)
_WORDS: tuple[tuple[object, str], ...] = (
    (Duration, "duration"),
    (Memory, "memory size"),
    (bool, "true/false"),
    (int, "whole number"),
    (float, "number"),
)


def keys_text() -> str:
    """All tables as Markdown."""
    return "\n".join(line for title, model in _TABLES for line in _table(title, model))


def with_keys(page: str) -> str:
    """``page`` with the part between its marks replaced by ``keys_text``."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError("the page lacks its marks")
    return f"{before}{BEGIN}\n\n{keys_text()}\n{END}{after}"


def _table(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in model.model_fields.items():
        key = f"`{field.alias or name}`"
        yield f"| {key} | {_kind(name, model)} | {_default(field)} | {field.description} |"
    yield ""


def _kind(name: str, model: type[BaseModel]) -> str:
    return _words(typing.get_type_hints(model, include_extras=True)[name])


def _words(hint: object) -> str:
    """A key's type in the site's own words; what may be absent is told by its default."""
    known = next((text for kind, text in _WORDS if hint == kind), None)
    if known is not None:
        return known
    inner = [a for a in typing.get_args(hint) if a is not type(None)]
    if typing.get_origin(hint) is tuple:
        return f"list of {_words(inner[0])}s".replace("texts", "text")
    if inner:
        return _words(inner[0])
    return "table" if _is_model(hint) else "text"


def _is_model(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    value = field.default
    if value is None or field.default_factory is not None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{v}"' for v in value) + "]`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value:g}`"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(with_keys(target.read_text()))
